package rewardmodel

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"assay/rewardmodel/batching"
)

// ticket identifies a request by its texts: a client that retries sends the same ones.
func (s *Scorer) ticket(req Request) (t batching.Ticket) {
	var h maphash.Hash
	h.SetSeed(s.seed)
	write := func(text string) {
		t.Bytes += len(text)
		_, _ = h.WriteString(text) // it never fails
		_ = h.WriteByte(0)
	}
	for _, it := range req.Responses {
		write(it.Prompt)
		if it.Response != nil {
			write(*it.Response)
		}
		for _, m := range it.Messages {
			write(m.Content)
		}
		for _, text := range it.Instances {
			write(text)
		}
	}
	t.ID = h.Sum64()
	return t
}

// checkAdmission rejects a request of a priority that has so many tokens or more, while
// the queue has no room for it: before it is segmented, and while it is tokenized.
func (s *Scorer) checkAdmission(p batching.Priority, t *batching.Ticket, tokens int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	return overloaded(s.queue.Check(time.Now(), p, t, tokens))
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
	deadline, _ := ctx.Deadline()
	coalesced, refused := s.queue.Admit(now, deadline, &work.Job)
	if refused != nil {
		return overloaded(refused)
	}
	work.admitted = now
	s.metrics.coalesced.Add(float64(coalesced))
	s.metrics.queueTokens.Set(float64(s.queue.Tokens()))
	s.work.Signal()
	return nil
}

// overloaded returns nil where nothing was refused.
func overloaded(r *batching.Refusal) error {
	if r == nil {
		return nil
	}
	return &OverloadedError{RetryAfter: r.RetryAfter, Reason: r.Reason}
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
	s.queue.Remove(&work.Job)
	s.metrics.queueTokens.Set(float64(s.queue.Tokens()))
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
