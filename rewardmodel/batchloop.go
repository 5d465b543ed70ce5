package rewardmodel

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"assay/rewardmodel/batching"
)

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
	for s.queue.Waiting() == 0 && !s.closed {
		s.work.Wait()
	}
	batch := s.queue.Next()
	if len(batch.Sequences) == 0 {
		return nil
	}
	s.exclusive = nil
	if batch.Exclusive != nil {
		s.exclusive = batch.Exclusive.Owner.computing
	}
	s.metrics.batches.WithLabelValues(batch.Reason).Inc()
	now := time.Now()
	for _, q := range batch.Sequences {
		for w := range q.Waiters() {
			if j := w.Job.Owner; !j.started {
				j.started = true
				j.trace.scheduled(now)
				s.metrics.wait.Observe(now.Sub(j.admitted).Seconds())
			}
		}
	}
	return batch.Sequences
}

// runBatch computes a batch and delivers its margins. When the model fails on a
// batch of several jobs, it retries each one separately, so that only those fail
// that the model cannot compute.
func (s *Scorer) runBatch(batch []*sequence) {
	margins, err := s.infer(batch)
	if err == nil {
		s.deliver(batch, margins)
		return
	}
	s.metrics.modelErrors.Inc()
	parts := s.byJob(batch)
	if len(parts) == 1 {
		if !errors.Is(err, ErrClosed) {
			err = fmt.Errorf("%w: %w", ErrModel, err)
		}
		s.fail(batch, err)
		return
	}
	for _, part := range parts {
		s.runBatch(part)
	}
}

// byJob splits a batch by the first job that needs each sequence, in the order
// of the batch.
func (s *Scorer) byJob(batch []*sequence) [][]*sequence {
	s.mu.Lock()
	defer s.mu.Unlock()
	index := make(map[*job]int)
	var parts [][]*sequence
	for _, q := range batch {
		i, ok := index[q.First().Owner]
		if !ok {
			i = len(parts)
			index[q.First().Owner] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], q)
	}
	return parts
}

// infer returns the margins of each sequence. It takes those that were cached
// since the sequence was queued from the cache.
func (s *Scorer) infer(batch []*sequence) ([][]float32, error) {
	call := batchCall{formed: time.Now()}
	margins := make([][]float32, len(batch))
	places := make([]int, 0, len(batch)) // in margins, of what is computed
	inputs := make([]Sequence, 0, len(batch))
	for i, q := range batch {
		if q.Whole {
			if cached, ok := s.cache.get(q.Key); ok {
				margins[i] = cached
				continue
			}
		}
		places, inputs = append(places, i), append(inputs, q.Input)
	}
	if len(inputs) == 0 {
		return margins, nil
	}
	call.sequences, call.tokens = len(inputs), batching.Tokens(inputs)
	call.start = time.Now()
	computed, err := s.callExclusive(inputs)
	call.took, call.failed = time.Since(call.start), err != nil
	s.observe(batch, call)
	if err != nil {
		return nil, err
	}
	for i, at := range places {
		margins[at] = computed[i*s.aspects():][:s.aspects()]
	}
	return margins, nil
}

// callExclusive is callModel, announced to the request of an exclusive batch.
func (s *Scorer) callExclusive(batch []Sequence) ([]float32, error) {
	if s.exclusive != nil {
		s.exclusive(true)
		defer s.exclusive(false)
	}
	return s.callModel(batch)
}

// callModel turns a panic of the model, or a wrong number of margins, into an
// error.
func (s *Scorer) callModel(batch []Sequence) (margins []float32, err error) {
	defer func() {
		if r := recover(); r != nil {
			margins, err = nil, fmt.Errorf("it panicked: %v", r)
		}
	}()
	margins, err = s.model.Margins(batch)
	if want := len(batch) * s.aspects(); err == nil && len(margins) != want {
		err = fmt.Errorf("it returned %d margins for %d sequences and %d aspects", len(margins), len(batch), s.aspects())
	}
	return margins, err
}

// observe records one call of the model. A call that failed shows in the spans only.
func (s *Scorer) observe(batch []*sequence, call batchCall) {
	if !call.failed {
		s.metrics.batchSequences.Observe(float64(call.sequences))
		s.metrics.batchTokens.Observe(float64(call.tokens))
		s.metrics.inference.Observe(call.took.Seconds())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	jobs := make(map[*job]bool)
	traced := false
	for _, q := range batch {
		for w := range q.Waiters() {
			jobs[w.Job.Owner] = true
			traced = traced || w.Job.Owner.trace != nil
		}
	}
	if traced {
		shared := call // a copy, so that call itself is not on the heap
		shared.end, shared.requests = time.Now(), len(jobs)
		for j := range jobs {
			if !j.Ended() {
				j.trace.called(&shared)
			}
		}
	}
	if call.failed {
		return
	}
	for j := range jobs {
		j.inference += call.took
	}
	s.queue.Computed(call.tokens, call.took)
}

// deliver distributes margins and ends the jobs that are complete.
func (s *Scorer) deliver(batch []*sequence, margins [][]float32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, q := range batch {
		var err error
		if bad := slices.IndexFunc(margins[i], notFinite); bad >= 0 {
			err = fmt.Errorf("%w: its margin of a sequence of %d tokens is %v", ErrModel, len(q.IDs), margins[i][bad])
		} else if q.Whole {
			s.cache.put(q.Key, margins[i])
		}
		s.queue.Complete(q)
		for w := range q.Waiters() {
			if err != nil || s.setMargins(w, margins[i]) {
				s.end(w.Job.Owner, err)
			}
		}
	}
	s.metrics.queueTokens.Set(float64(s.queue.Tokens()))
	s.metrics.cacheBytes.Set(float64(s.cache.bytes()))
}

// setMargins gives a waiter the margins of its sequence, and reports whether its job is
// complete.
func (s *Scorer) setMargins(w waiter, margins []float32) bool {
	if !w.Job.Ended() {
		own := w.Job.Owner.marginsOf(w.Place)
		for a, have := range own {
			own[a] = max(have, margins[a])
		}
	}
	return s.queue.Deliver(w)
}

func notFinite(m float32) bool { return math.IsNaN(float64(m)) || math.IsInf(float64(m), 0) }

// fail ends the job of a batch. The sequences that other jobs need are queued
// again, since it is unknown on which of them the model failed.
func (s *Scorer) fail(batch []*sequence, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(batch[0].First().Owner, err)
	for _, q := range batch {
		s.queue.Retry(q)
	}
	s.metrics.queueTokens.Set(float64(s.queue.Tokens()))
}

// end gives a job its outcome, once.
func (s *Scorer) end(j *job, err error) {
	if j.Ended() {
		return
	}
	s.remove(j)
	j.err = err
	close(j.done)
}
