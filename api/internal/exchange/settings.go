package exchange

import (
	"cmp"
	"sync/atomic"
	"time"

	"assay/internal/trace"
	"assay/rewardmodel"
	"assay/rewardmodel/wire"
)

// Settings apply to every exchange of a server.
type Settings struct {
	RequestTimeout time.Duration // maximum time of a request
	HeaderTimeout  time.Duration // maximum time of the headers, and the grace period of MinRate
	RetryAfter     time.Duration // advised while the service is not ready
	MinRate        int64         // bytes per second at which a body must arrive or be read
	Tracer         *trace.Tracer // nil: no spans
	limits         atomic.Pointer[Limits]
}

// Limits bound one request. They may change while the server runs.
type Limits struct {
	MaxBody int64 // bytes, after decompression
	Scoring wire.Limits
}

// SetLimits replaces the limits for requests that arrive from now on.
func (s *Settings) SetLimits(l Limits) { s.limits.Store(&l) }

// Limits returns the limits that apply now.
func (s *Settings) Limits() Limits {
	if l := s.limits.Load(); l != nil {
		return *l
	}
	return Limits{}
}

// MaxResponses is the maximum number of responses in one request.
func (l Limits) MaxResponses() int {
	return cmp.Or(max(l.Scoring.MaxResponses, 0), rewardmodel.DefaultMaxResponses)
}

// MaxInstances is the maximum number of instances in one request.
func (l Limits) MaxInstances() int {
	return cmp.Or(max(l.Scoring.MaxInstances, 0), rewardmodel.DefaultMaxInstances)
}

// Deadline returns the deadline of a transfer of n bytes that started at start.
func (s *Settings) Deadline(start time.Time, n int64) time.Time {
	return start.Add(s.HeaderTimeout + time.Duration(float64(n)/float64(s.MinRate)*float64(time.Second)))
}
