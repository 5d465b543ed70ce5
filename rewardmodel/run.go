package rewardmodel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// roomFor admits work, or only asks whether it could when work is nil.
func (s *Scorer) roomFor(work *job) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case work == nil && !s.backlog.full():
		return nil
	case work == nil || !s.backlog.admit(work):
		return &OverloadedError{RetryAfter: s.retryAfter()}
	}
	work.admitted = time.Now()
	s.metrics.queueTokens.Set(float64(s.backlog.tokens))
	s.work.Signal()
	return nil
}

// retryAfter is how long the backlog takes at the measured rate.
func (s *Scorer) retryAfter() time.Duration {
	wait := time.Second
	if s.rate > 0 {
		wait = time.Duration(float64(s.backlog.tokens) / s.rate * float64(time.Second))
	}
	return min(max(wait, time.Second), time.Minute)
}

// compute admits work and waits for its margins.
func (s *Scorer) compute(ctx context.Context, work *job) error {
	if err := s.roomFor(work); err != nil {
		return err
	}
	select {
	case <-work.done:
		if work.err != nil {
			return work.err
		}
		for _, w := range work.windowed {
			s.cache.put(w.key, work.margins[w.unique])
		}
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		s.remove(work)
		s.mu.Unlock()
		return leftEarly(ctx)
	}
}

// leftEarly is nil while the caller waits.
func leftEarly(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("the caller left before the answer: %w", err)
	}
	return nil
}

func (s *Scorer) remove(work *job) {
	s.backlog.remove(work)
	s.metrics.queueTokens.Set(float64(s.backlog.tokens))
}

// rejected counts a request that ends with err.
func (s *Scorer) rejected(err error) error {
	reason := "canceled"
	switch {
	case errors.Is(err, ErrOverloaded):
		reason = "overloaded"
	case errors.Is(err, ErrClosed):
		reason = "closed"
	case errors.Is(err, ErrModel):
		reason = "model"
	}
	s.metrics.rejected.WithLabelValues(reason).Inc()
	return err
}

// run computes batch after batch until the scorer is closed and drained.
func (s *Scorer) run() {
	defer close(s.stopped)
	for {
		batch := s.nextBatch()
		if len(batch) == 0 {
			return
		}
		s.runBatch(batch)
	}
}

// nextBatch waits for work; it returns nothing once the scorer has closed.
func (s *Scorer) nextBatch() []*sequence {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.backlog.jobs) == 0 && !s.closed {
		s.work.Wait()
	}
	batch, reason := s.backlog.next()
	if len(batch) == 0 {
		return nil
	}
	s.metrics.batches.WithLabelValues(reason).Inc()
	for _, q := range batch {
		if !q.job.started {
			q.job.started = true
			s.metrics.wait.Observe(time.Since(q.job.admitted).Seconds())
		}
	}
	return batch
}

// runBatch computes a batch and hands out its margins. When the model fails on
// a batch of several jobs, each is tried alone, so that only those fail that
// the model cannot compute.
func (s *Scorer) runBatch(batch []*sequence) {
	margins, err := s.infer(batch)
	if err == nil {
		s.deliver(batch, margins)
		return
	}
	s.metrics.modelErrors.Inc()
	alone := byJob(batch)
	if len(alone) == 1 {
		s.fail(batch[0].job, fmt.Errorf("%w: %w", ErrModel, err))
		return
	}
	for _, part := range alone {
		s.runBatch(part)
	}
}

// byJob parts a batch by job, in the order of the batch.
func byJob(batch []*sequence) [][]*sequence {
	index := make(map[*job]int)
	var parts [][]*sequence
	for _, q := range batch {
		i, ok := index[q.job]
		if !ok {
			i = len(parts)
			index[q.job] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], q)
	}
	return parts
}

// infer returns the margin of each sequence. Those that repeat another one of
// the batch, or that an earlier batch has computed meanwhile, cost nothing.
func (s *Scorer) infer(batch []*sequence) ([]float32, error) {
	known := make(map[key]float32, len(batch))
	var keys []key
	var ids [][]int32
	tokens := 0
	for _, q := range batch {
		if _, ok := known[q.key]; ok {
			continue
		}
		margin, ok := s.cache.get(q.key)
		known[q.key] = margin
		if !ok || !q.whole {
			keys, ids = append(keys, q.key), append(ids, q.ids)
			tokens += len(q.ids)
		}
	}
	if len(ids) > 0 {
		start := time.Now()
		margins, err := s.callModel(ids)
		took := time.Since(start)
		if err != nil {
			return nil, err
		}
		s.observe(batch, len(ids), len(ids[0]), tokens, took)
		for i, k := range keys {
			known[k] = margins[i]
		}
	}
	out := make([]float32, len(batch))
	for i, q := range batch {
		out[i] = known[q.key]
	}
	return out, nil
}

// callModel keeps a panic or a short answer of the model from the others.
func (s *Scorer) callModel(ids [][]int32) (margins []float32, err error) {
	defer func() {
		if r := recover(); r != nil {
			margins, err = nil, fmt.Errorf("it panicked: %v", r)
		}
	}()
	margins, err = s.model.Margins(ids)
	if err == nil && len(margins) != len(ids) {
		err = fmt.Errorf("it returned %d margins for %d sequences", len(margins), len(ids))
	}
	return margins, err
}

// observe records one call of the model.
func (s *Scorer) observe(batch []*sequence, sequences, longest, tokens int, took time.Duration) {
	s.metrics.batchSequences.Observe(float64(sequences))
	s.metrics.batchTokens.Observe(float64(tokens))
	s.metrics.padding.Observe(1 - float64(tokens)/float64(sequences*longest))
	s.metrics.inference.Observe(took.Seconds())
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, part := range byJob(batch) {
		part[0].job.inference += took
	}
	if took > 0 {
		rate := float64(tokens) / took.Seconds()
		if s.rate > 0 {
			rate = 0.8*s.rate + 0.2*rate
		}
		s.rate = rate
	}
}

// deliver hands out margins and ends the jobs that are complete.
func (s *Scorer) deliver(batch []*sequence, margins []float32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, q := range batch {
		m := margins[i]
		if math.IsNaN(float64(m)) || math.IsInf(float64(m), 0) {
			s.end(q.job, fmt.Errorf("%w: its margin of a sequence of %d tokens is %v", ErrModel, len(q.ids), m))
			continue
		}
		if q.whole {
			s.cache.put(q.key, m)
		}
		if s.backlog.finish(q, m) {
			s.end(q.job, nil)
		}
	}
	s.metrics.queueTokens.Set(float64(s.backlog.tokens))
}

func (s *Scorer) fail(j *job, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(j, err)
}

// end gives a job its outcome, once.
func (s *Scorer) end(j *job, err error) {
	if j.left {
		return
	}
	s.remove(j)
	j.err = err
	close(j.done)
}
