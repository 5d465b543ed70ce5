package rewardmodel

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// checkAdmission rejects a request of a priority before it is segmented, while the
// queue is full for that priority.
func (s *Scorer) checkAdmission(p priority) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.scheduler.full(p):
		return s.overloaded(1)
	}
	return nil
}

// admit queues work, unless the queue is full, or so full that the work would not
// be completed before the deadline of ctx.
func (s *Scorer) admit(ctx context.Context, work *job) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	now := time.Now()
	if deadline, ok := ctx.Deadline(); ok {
		if err := s.checkDeadline(work, deadline.Sub(now)); err != nil {
			return err
		}
	}
	coalesced := s.scheduler.coalesced
	if !s.scheduler.admit(work) {
		return s.overloaded(work.tokens)
	}
	work.admitted = now
	s.metrics.coalesced.Add(float64(s.scheduler.coalesced - coalesced))
	s.metrics.queueTokens.Set(float64(s.scheduler.tokens))
	s.work.Signal()
	return nil
}

// checkDeadline rejects work that cannot be completed within the timeout of its
// caller because of the jobs ahead of it: its result would be discarded. With an
// empty queue, work is always admitted, because the measured throughput may be that
// of another kind of work.
func (s *Scorer) checkDeadline(work *job, timeout time.Duration) error {
	if len(s.scheduler.jobs) == 0 || s.throughput.timeFor(s.scheduler.tokens+work.tokens) <= timeout {
		return nil
	}
	if needed := s.throughput.timeFor(s.scheduler.minTokens(work)); needed > timeout {
		return &OverloadedError{RetryAfter: retryAfter(needed - timeout), Reason: fmt.Sprintf(
			"the request would take %v with the queued work ahead of it, longer than its timeout of %v", needed.Round(time.Millisecond), timeout.Round(time.Millisecond))}
	}
	return nil
}

// overloaded estimates when the queue will have capacity for the given tokens.
func (s *Scorer) overloaded(tokens int) error {
	return &OverloadedError{RetryAfter: retryAfter(s.throughput.timeFor(s.scheduler.tokens + tokens - s.scheduler.limit))}
}

func retryAfter(d time.Duration) time.Duration { return min(max(d, time.Second), time.Minute) }

// compute admits work and waits for its margins.
func (s *Scorer) compute(ctx context.Context, work *job) error {
	if err := s.admit(ctx, work); err != nil {
		return err
	}
	select {
	case <-work.done:
		if work.err != nil {
			return work.err
		}
		for _, w := range work.windowed {
			s.cache.put(w.key, work.marginsOf(w.unique))
		}
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		s.remove(work)
		s.mu.Unlock()
		return canceled(ctx)
	}
}

// canceled returns an error once the caller has canceled, and nil before.
func canceled(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("the caller canceled the request: %w", err)
	}
	return nil
}

func (s *Scorer) remove(work *job) {
	s.scheduler.remove(work)
	s.metrics.queueTokens.Set(float64(s.scheduler.tokens))
}

// rejected counts a request that ends with err.
func (s *Scorer) rejected(err error) error {
	s.metrics.rejected.WithLabelValues(reasonOf(err)).Inc()
	return err
}

// reasonOf classifies the error of a request that has no result.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, ErrOverloaded):
		return reasonOverloaded
	case errors.Is(err, ErrClosed):
		return reasonClosed
	case errors.Is(err, ErrModel):
		return reasonModel
	}
	return reasonCanceled
}

// The reasons in assay_requests_rejected_total.
const (
	reasonOverloaded = "overloaded"
	reasonClosed     = "closed"
	reasonCanceled   = "canceled"
	reasonModel      = "model"
)
