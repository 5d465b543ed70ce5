package rewardmodel

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
)

// DefaultMemory is a limit of [Memory] that suits a container limit of 4 GiB with
// the shipped model.
const DefaultMemory = 1 << 30

// RequestBytes is the memory of a request in flight apart from its content:
// connection, goroutines and buffers. TestRequestBytes of package api measures it.
const RequestBytes = 40 << 10

// smallRequest is the maximum number of bytes of a small request. A quarter of the
// memory is reserved for small requests, so that a few large ones never block all
// others.
const smallRequest = 4 << 20

// Memory bounds the memory of all concurrent requests of a process, in bytes, for
// every protocol: [RequestBytes] each, bodies as they are read, the decoded
// requests, their instances and tokens, and the rendered results. The garbage
// collector may let the heap grow to about twice that.
//
// Requests do not wait for memory: a request that needs more than is free fails
// with an *OverloadedError, so that requests that hold memory never wait for each
// other. A nil *Memory has no limit.
type Memory struct {
	limit, largest int64
	all            *semaphore.Weighted
	large          *semaphore.Weighted // of requests that are not small
	held           prometheus.Gauge
	refused        prometheus.Counter
}

// NewMemory returns a bound of limit bytes and registers its metrics with reg
// (nil for none). The limit must be positive.
func NewMemory(limit int64, reg prometheus.Registerer) (*Memory, error) {
	if limit <= 0 {
		return nil, fmt.Errorf("memory of requests: the limit is %d bytes; it must be positive", limit)
	}
	m := &Memory{
		limit: limit, largest: max(limit-limit/4, 1),
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "assay_request_memory_bytes",
			Help: "Memory that is charged to requests in flight, in bytes: connections, bodies, instances, tokens, results.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "assay_request_memory_refused_total",
			Help: "Requests rejected because the request memory was in use.",
		}),
	}
	m.all, m.large = semaphore.NewWeighted(m.limit), semaphore.NewWeighted(m.largest)
	bound := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "assay_request_memory_limit_bytes",
		Help: "Limit of the memory of all requests in flight, in bytes.",
	})
	bound.Set(float64(limit))
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.held, m.refused, bound} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("memory of requests: %w", err)
		}
	}
	return m, nil
}

// Open returns the reservation of a new request, which holds nothing yet. Close
// it once nothing of the request is needed any more.
func (m *Memory) Open() *Reservation {
	if m == nil {
		return nil
	}
	return &Reservation{memory: m}
}

// OpenBuffer returns the reservation of a buffer in which requests arrive, as
// from a message stream. It counts against the limit only, not against the part
// of it that large requests share: a buffer that waits for messages must not
// keep out a request that fits.
func (m *Memory) OpenBuffer() *Reservation {
	r := m.Open()
	if r != nil {
		r.buffer = true
	}
	return r
}

// Reservation is what one request holds of a [Memory]. It is safe for
// concurrent use; a nil one holds nothing and refuses nothing.
type Reservation struct {
	memory *Memory
	buffer bool // never large

	mu     sync.Mutex
	held   int64
	kept   int64 // part of held that only Close releases
	large  bool  // what it holds counts against memory.large as well
	closed bool
}

// Grow reserves n more bytes before they are allocated. The error is an
// *OverloadedError when other requests hold the memory, and an *InputError of
// KindTooLarge when the request could not be served even by an idle process.
func (r *Reservation) Grow(n int64) error {
	if r == nil || n <= 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return ErrClosed
	case r.held+n > r.memory.largest:
		return &InputError{Kind: KindTooLarge, Message: fmt.Sprintf(
			"the request needs more than %d bytes of memory, three quarters of the request memory; send fewer or shorter responses per request", r.memory.largest)}
	case !r.acquire(n):
		r.memory.refused.Inc()
		return &OverloadedError{RetryAfter: time.Second, Reason: "the request memory is in use"}
	}
	r.held += n
	r.memory.held.Add(float64(n))
	return nil
}

// Keep is Grow for bytes that only Close releases.
func (r *Reservation) Keep(n int64) error {
	if err := r.Grow(n); err != nil || r == nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept += n
	return nil
}

// acquire takes n bytes of both bounds that concern the request, or nothing.
func (r *Reservation) acquire(n int64) bool {
	large := n
	if !r.large {
		large += r.held
	}
	isLarge := !r.buffer && r.held+n > smallRequest
	if isLarge && !r.memory.large.TryAcquire(large) {
		return false
	}
	if !r.memory.all.TryAcquire(n) {
		if isLarge {
			r.memory.large.Release(large)
		}
		return false
	}
	r.large = isLarge
	return true
}

// Shrink releases n bytes, or everything that is not kept if that is less.
func (r *Reservation) Shrink(n int64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shrink(min(n, r.held-r.kept))
}

func (r *Reservation) shrink(n int64) {
	if n <= 0 {
		return
	}
	r.memory.all.Release(n)
	r.memory.held.Sub(float64(n))
	if r.large {
		r.memory.large.Release(n)
	}
	r.held -= n
	if r.large && r.held <= smallRequest {
		r.memory.large.Release(r.held)
		r.large = false
	}
}

// ShrinkTo releases all but n bytes and those that are kept.
func (r *Reservation) ShrinkTo(n int64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shrink(r.held - r.kept - n)
}

// Close releases everything. A closed reservation cannot grow again.
func (r *Reservation) Close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shrink(r.held)
	r.closed = true
}
