package recent

import "time"

// WithoutKept removes what only the ring reads.
func WithoutKept(r Response) Response {
	r.kept = time.Time{}
	return r
}
