// Package quota limits what one caller may use: requests and labels per unit of time,
// and concurrent requests.
package quota

import (
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"assay/api/internal/failure"
)

// Limits are the limits of a caller. A field that is zero limits nothing.
type Limits struct {
	Requests   Rate  // requests, calls, and requests on a gRPC stream
	Labels     Rate  // labels of feedback
	Concurrent int64 // requests in flight, including streams
	MaxBody    int64 // bytes of a request, after decompression
}

// Rate is a number per unit of time. An unused quota accumulates up to N, so that a
// caller may use all of it in one burst.
type Rate struct {
	N   int
	Per time.Duration
}

// String formats a rate as in "100 per 1m0s".
func (r Rate) String() string { return fmt.Sprintf("%d per %v", r.N, r.Per) }

// Quota counts what a caller uses of its limits. A nil quota limits nothing. It is
// safe for concurrent use.
type Quota struct {
	limits   Limits
	requests *rate.Limiter
	labels   *rate.Limiter
	inFlight atomic.Int64
	refused  [kinds]atomic.Uint64
}

// Kind is what a limit counts.
type Kind int

// The kinds of limits that are counted when they refuse.
const (
	KindRate Kind = iota
	KindConcurrent
	KindLabels
	kinds
)

// String returns the keyword of the limit in the token file.
func (k Kind) String() string { return [kinds]string{"rate", "concurrent", "labels"}[k] }

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{KindRate, KindConcurrent, KindLabels} }

// Refused returns how many requests a limit has refused.
func (q *Quota) Refused(k Kind) uint64 {
	if q == nil {
		return 0
	}
	return q.refused[k].Load()
}

// limited reports a refused request.
func (q *Quota) limited(k Kind, retry time.Duration, format string, args ...any) error {
	q.refused[k].Add(1)
	return failure.RateLimited(retry, format, args...)
}

// New returns an unused quota.
func New(l Limits) *Quota {
	return &Quota{limits: l, requests: limiter(l.Requests), labels: limiter(l.Labels)}
}

// limiter returns nil for no limit.
func limiter(r Rate) *rate.Limiter {
	if r.N == 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(float64(r.N)/r.Per.Seconds()), r.N)
}

// Limits returns the limits of q.
func (q *Quota) Limits() Limits {
	if q == nil {
		return Limits{}
	}
	return q.limits
}

// Begin counts a request, until its caller calls end. The error is a 429; retry is the
// advice for a caller with too many requests in flight, since nobody knows when one
// ends.
func (q *Quota) Begin(retry time.Duration) (end func(), err error) {
	if q == nil {
		return func() {}, nil
	}
	if n := q.inFlight.Add(1); q.limits.Concurrent > 0 && n > q.limits.Concurrent {
		q.inFlight.Add(-1)
		return nil, q.limited(KindConcurrent, retry, "this caller has %d requests in flight, its limit; send fewer concurrently", q.limits.Concurrent)
	}
	if err := q.Request(); err != nil {
		q.inFlight.Add(-1)
		return nil, err
	}
	return func() { q.inFlight.Add(-1) }, nil
}

// Request counts a request on a stream that has begun.
func (q *Quota) Request() error {
	if q == nil {
		return nil
	}
	if wait := take(q.requests, 1); wait > 0 {
		return q.limited(KindRate, wait, "this caller has used up its requests, %v", q.limits.Requests)
	}
	return nil
}

// Label counts n labels of a request.
func (q *Quota) Label(n int) error {
	switch {
	case q == nil || q.labels == nil:
		return nil
	case n > q.limits.Labels.N:
		q.refused[KindLabels].Add(1)
		return failure.TooLarge("", "the request has %d labels, and this caller may send %v; send fewer labels per request", n, q.limits.Labels)
	}
	if wait := take(q.labels, n); wait > 0 {
		return q.limited(KindLabels, wait, "this caller has used up its labels, %v", q.limits.Labels)
	}
	return nil
}

// RefundLabels gives back n labels that Label has counted, of a request that the service
// could not serve. An unused quota never exceeds its burst.
func (q *Quota) RefundLabels(n int) {
	if q != nil && q.labels != nil {
		q.labels.AllowN(time.Now(), -n)
	}
}

// take takes n of a limiter, or takes nothing and returns when n would be available. It does not reserve and cancel: what
// is reserved in between would stay taken.
func take(l *rate.Limiter, n int) (wait time.Duration) {
	if l == nil {
		return 0
	}
	now := time.Now()
	if l.AllowN(now, n) {
		return 0
	}
	missing := float64(n) - l.TokensAt(now)
	return max(1, time.Duration(missing/float64(l.Limit())*float64(time.Second)))
}
