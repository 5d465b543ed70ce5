package rewardmodel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// worthPreparing refuses work of a class while there is no room for any of it.
func (s *Scorer) worthPreparing(c class) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.backlog.full(c):
		return s.overloaded(1)
	}
	return nil
}

// admit takes work in, unless the queue is full, or holds so much that work
// cannot be done before ctx ends.
func (s *Scorer) admit(ctx context.Context, work *job) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	now := time.Now()
	if deadline, ok := ctx.Deadline(); ok {
		if err := s.inTime(work, deadline.Sub(now)); err != nil {
			return err
		}
	}
	joined := s.backlog.joined
	if !s.backlog.admit(work) {
		return s.overloaded(work.tokens)
	}
	work.admitted = now
	s.metrics.joined.Add(float64(s.backlog.joined - joined))
	s.metrics.queueTokens.Set(float64(s.backlog.tokens))
	s.work.Signal()
	return nil
}

// inTime refuses work whose caller will have left before the jobs ahead of it
// and itself are computed: the model would work in vain. Alone it is always
// tried, since the pace may be that of another kind of work.
func (s *Scorer) inTime(work *job, patience time.Duration) error {
	b := &s.backlog
	if len(b.jobs) == 0 || s.pace.takes(b.tokens+work.tokens) <= patience {
		return nil
	}
	if takes := s.pace.takes(b.least(work)); takes > patience {
		return &OverloadedError{RetryAfter: retryAfter(takes - patience), Reason: fmt.Sprintf(
			"with what waits already this request takes %v, and its caller waits %v at most", takes.Round(time.Millisecond), patience.Round(time.Millisecond))}
	}
	return nil
}

// overloaded says when there will be room for as many tokens.
func (s *Scorer) overloaded(tokens int) error {
	return &OverloadedError{RetryAfter: retryAfter(s.pace.takes(s.backlog.tokens + tokens - s.backlog.limit))}
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
	s.alone = s.backlog.alone
	s.metrics.batches.WithLabelValues(reason).Inc()
	for _, q := range batch {
		for w := range q.waiters() {
			if !w.job.started {
				w.job.started = true
				s.metrics.wait.Observe(time.Since(w.job.admitted).Seconds())
			}
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
	alone := s.byJob(batch)
	if len(alone) == 1 {
		s.fail(batch, fmt.Errorf("%w: %w", ErrModel, err))
		return
	}
	for _, part := range alone {
		s.runBatch(part)
	}
}

// byJob parts a batch by the first job that needs each sequence, in the order
// of the batch.
func (s *Scorer) byJob(batch []*sequence) [][]*sequence {
	s.mu.Lock()
	defer s.mu.Unlock()
	index := make(map[*job]int)
	var parts [][]*sequence
	for _, q := range batch {
		i, ok := index[q.first.job]
		if !ok {
			i = len(parts)
			index[q.first.job] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], q)
	}
	return parts
}

// infer returns the margin of each sequence. Those that became known since
// their requests looked cost nothing.
func (s *Scorer) infer(batch []*sequence) ([]float32, error) {
	margins := make([]float32, len(batch))
	places := make([]int, 0, len(batch)) // in margins, of what is computed
	ids := make([][]int32, 0, len(batch))
	tokens := 0
	for i, q := range batch {
		if q.whole {
			if margin, ok := s.cache.get(q.key); ok {
				margins[i] = margin
				continue
			}
		}
		places, ids = append(places, i), append(ids, q.ids)
		tokens += len(q.ids)
	}
	if len(ids) == 0 {
		return margins, nil
	}
	start := time.Now()
	computed, err := s.callAlone(ids)
	took := time.Since(start)
	if err != nil {
		return nil, err
	}
	s.observe(batch, len(ids), tokens, took)
	for i, at := range places {
		margins[at] = computed[i]
	}
	return margins, nil
}

// callAlone is callModel, announced to a request that must be alone.
func (s *Scorer) callAlone(ids [][]int32) ([]float32, error) {
	if s.alone != nil {
		s.alone(true)
		defer s.alone(false)
	}
	return s.callModel(ids)
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
func (s *Scorer) observe(batch []*sequence, sequences, tokens int, took time.Duration) {
	s.metrics.batchSequences.Observe(float64(sequences))
	s.metrics.batchTokens.Observe(float64(tokens))
	s.metrics.inference.Observe(took.Seconds())
	s.mu.Lock()
	defer s.mu.Unlock()
	counted := make(map[*job]bool)
	for _, q := range batch {
		for w := range q.waiters() {
			if !counted[w.job] {
				counted[w.job] = true
				w.job.inference += took
			}
		}
	}
	s.pace.observe(tokens, took)
	s.backlog.limit = s.queueLimit()
}

// queueLimit is how many tokens may wait: as many as there is memory for, and no
// more than are computed while somebody may wait for them.
func (s *Scorer) queueLimit() int {
	if s.config.MaxQueueTime == 0 {
		return s.config.MaxQueueTokens
	}
	return min(s.config.MaxQueueTokens, max(s.pace.within(s.config.MaxQueueTime), s.config.MaxBatchTokens))
}

// deliver hands out margins and ends the jobs that are complete.
func (s *Scorer) deliver(batch []*sequence, margins []float32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, q := range batch {
		m := margins[i]
		var err error
		if math.IsNaN(float64(m)) || math.IsInf(float64(m), 0) {
			err = fmt.Errorf("%w: its margin of a sequence of %d tokens is %v", ErrModel, len(q.ids), m)
		} else if q.whole {
			s.cache.put(q.key, m)
		}
		s.backlog.settle(q)
		for w := range q.waiters() {
			if err != nil || s.backlog.finish(q, w, m) {
				s.end(w.job, err)
			}
		}
	}
	s.metrics.queueTokens.Set(float64(s.backlog.tokens))
	s.metrics.cacheBytes.Set(float64(s.cache.bytes()))
}

// fail ends the job that a batch is of. What others need of it, they have tried
// again, since nobody knows which of it the model failed on.
func (s *Scorer) fail(batch []*sequence, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(batch[0].first.job, err)
	for _, q := range batch {
		s.backlog.retry(q)
	}
	s.metrics.queueTokens.Set(float64(s.backlog.tokens))
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
