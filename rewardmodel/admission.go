package rewardmodel

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// standingTime is how much work of a priority may be queued while its requests are
// refused. A queue that stays full serves no more than a short one, only later.
const standingTime = 2 * time.Second

// promisedShare is the part of the throughput that is promised to requests that
// were refused. The rest is what the model waits between its calls.
const promisedShare = 0.9

// ticket identifies a request whenever it is sent.
type ticket struct {
	id       uint64
	bytes    int  // of its texts
	promised bool // it was refused, and comes at the time that it was promised
}

// checkAdmission rejects a request of a priority that has so many tokens or more, while
// the queue has no room for it: before it is segmented, and while it is tokenized.
func (s *Scorer) checkAdmission(p priority, t *ticket, tokens int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	now := time.Now()
	t.promised = t.promised || s.waiting[p].claim(now, t.id)
	if !s.scheduler.fits(p, s.scheduler.charge(p, tokens), s.reserved(now, t)) {
		return s.overloaded(now, p, t.id, max(tokens, s.textCost.of(t.bytes)), 0)
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
	s.textCost.observe(work.ticket.bytes, work.tokens)
	if deadline, ok := ctx.Deadline(); ok {
		if err := s.checkDeadline(now, work, deadline.Sub(now)); err != nil {
			return err
		}
	}
	if !s.scheduler.fits(work.priority, s.scheduler.charge(work.priority, work.tokens), s.reserved(now, &work.ticket)) {
		return s.overloaded(now, work.priority, work.ticket.id, work.tokens, 0)
	}
	s.waiting[work.priority].take(work.ticket.id)
	coalesced := s.scheduler.coalesced
	s.scheduler.enqueue(work)
	work.admitted = now
	s.metrics.coalesced.Add(float64(s.scheduler.coalesced - coalesced))
	s.metrics.queueTokens.Set(float64(s.scheduler.tokens))
	s.work.Signal()
	return nil
}

// reserved is the part of the queue that is held for others than the request of t:
// at most half of it, in case they do not come. A promise may exceed the limit of
// its priority by as much, in case the model became slower.
func (s *Scorer) reserved(now time.Time, t *ticket) (tokens [priorities]int) {
	for p := range priorities {
		half := s.scheduler.limitOf(p) / 2
		s.waiting[p].advance(now)
		switch {
		case !t.promised:
			tokens[p] = min(s.waiting[p].held, half)
		case s.scheduler.standing[p] > 0:
			tokens[p] = -half
		}
	}
	return tokens
}

// checkDeadline rejects work that cannot be completed within the timeout of its
// caller because of the jobs ahead of it: its result would be discarded. With an
// empty queue, work is always admitted, because the measured throughput may be that
// of another kind of work.
func (s *Scorer) checkDeadline(now time.Time, work *job, timeout time.Duration) error {
	ahead := max(0, sum(s.reserved(now, &work.ticket)))
	if len(s.scheduler.jobs) == 0 || s.throughput.timeFor(s.scheduler.tokens+ahead+work.tokens) <= timeout {
		return nil
	}
	if needed := s.throughput.timeFor(s.scheduler.minTokens(work) + ahead); needed > timeout {
		err := s.overloaded(now, work.priority, work.ticket.id, work.tokens, needed-timeout)
		err.Reason = fmt.Sprintf("the request would take %v with the queued work ahead of it, longer than its timeout of %v",
			needed.Round(time.Millisecond), timeout.Round(time.Millisecond))
		return err
	}
	return nil
}

// overloaded refuses a request that counts tokens, and promises it a time: when the
// queue has room for it, but at least after wait, and after those that were refused
// before it.
func (s *Scorer) overloaded(now time.Time, p priority, id uint64, tokens int, wait time.Duration) *OverloadedError {
	if wait == 0 {
		s.scheduler.standing[p] = s.standingLimit()
		wait = s.throughput.timeFor(s.scheduler.excess(p, tokens))
	}
	share := promisedShare
	if other := 1 - p; s.scheduler.charged[other] > 0 {
		share *= p.share()
	}
	takes := time.Duration(float64(s.throughput.timeFor(tokens)) / share)
	return &OverloadedError{RetryAfter: s.waiting[p].promise(now, id, wait, takes, s.scheduler.charge(p, tokens)).Round(time.Millisecond)}
}

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
