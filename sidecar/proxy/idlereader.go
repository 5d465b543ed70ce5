package proxy

import (
	"io"
	"time"
)

// idleReader aborts when a read takes longer than a timeout.
type idleReader struct {
	r       io.Reader
	timeout time.Duration
	abort   func(error)
}

func newIdleReader(r io.Reader, timeout time.Duration, abort func(error)) *idleReader {
	return &idleReader{r, timeout, abort}
}

// Read implements [io.Reader]. abort must end the read.
func (r *idleReader) Read(b []byte) (int, error) {
	timer := time.AfterFunc(r.timeout, func() { r.abort(errIdle) })
	defer timer.Stop()
	return r.r.Read(b)
}
