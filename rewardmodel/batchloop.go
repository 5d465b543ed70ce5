package rewardmodel

import (
	"fmt"
	"math"
	"slices"
	"time"
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
	for len(s.scheduler.jobs) == 0 && !s.closed {
		s.work.Wait()
	}
	batch, reason := s.scheduler.nextBatch()
	if len(batch) == 0 {
		return nil
	}
	s.exclusive = s.scheduler.exclusive
	s.metrics.batches.WithLabelValues(reason).Inc()
	now := time.Now()
	for _, q := range batch {
		for w := range q.waiters() {
			if !w.job.started {
				w.job.started = true
				w.job.trace.scheduled(now)
				s.metrics.wait.Observe(now.Sub(w.job.admitted).Seconds())
			}
		}
	}
	return batch
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
		s.fail(batch, fmt.Errorf("%w: %w", ErrModel, err))
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

// infer returns the margins of each sequence. It takes those that were cached
// since the sequence was queued from the cache.
func (s *Scorer) infer(batch []*sequence) ([][]float32, error) {
	call := batchCall{formed: time.Now()}
	margins := make([][]float32, len(batch))
	places := make([]int, 0, len(batch)) // in margins, of what is computed
	inputs := make([]Sequence, 0, len(batch))
	var work batchBuilder // whose tokens count each context once
	for i, q := range batch {
		if q.whole {
			if cached, ok := s.cache.get(q.key); ok {
				margins[i] = cached
				continue
			}
		}
		places, inputs = append(places, i), append(inputs, q.Sequence)
		work.add(q)
	}
	if len(inputs) == 0 {
		return margins, nil
	}
	call.start, call.sequences, call.tokens = time.Now(), len(inputs), work.tokens
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
		for w := range q.waiters() {
			jobs[w.job] = true
			traced = traced || w.job.trace != nil
		}
	}
	if traced {
		shared := call // a copy, so that call itself is not on the heap
		shared.end, shared.requests = time.Now(), len(jobs)
		for j := range jobs {
			if !j.ended {
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
	s.throughput.observe(call.tokens, call.took)
	s.scheduler.limit = s.queueLimit()
	for p := range priorities {
		if s.scheduler.standing[p] > 0 {
			s.scheduler.standing[p] = 0
			if s.scheduler.waits(p) {
				s.scheduler.standing[p] = s.standingLimit()
			}
		}
	}
	s.scheduler.quick = s.throughput.capacity(shortTime)
}

// shortTime is how long a batch with interactive jobs takes if bulk jobs fill it. A
// sentence of a live session waits for such a batch at most, and is computed in
// another: the aim is 50 ms, of which the rest is for all that is not the model.
const shortTime = 18 * time.Millisecond

// queueLimit is how many tokens may wait: at most MaxQueueTokens, and no more
// than are computed within MaxQueueTime.
func (s *Scorer) queueLimit() int {
	if s.config.MaxQueueTime == 0 {
		return s.config.MaxQueueTokens
	}
	return min(s.config.MaxQueueTokens, max(s.throughput.capacity(s.config.MaxQueueTime), s.config.MaxBatchTokens))
}

// standingLimit is how many tokens of a priority may wait from a refusal on, until
// none of it wait.
func (s *Scorer) standingLimit() int {
	return min(s.queueLimit(), max(s.throughput.capacity(standingTime), 2*s.config.MaxBatchTokens))
}

// deliver distributes margins and ends the jobs that are complete.
func (s *Scorer) deliver(batch []*sequence, margins [][]float32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, q := range batch {
		var err error
		if bad := slices.IndexFunc(margins[i], notFinite); bad >= 0 {
			err = fmt.Errorf("%w: its margin of a sequence of %d tokens is %v", ErrModel, len(q.IDs), margins[i][bad])
		} else if q.whole {
			s.cache.put(q.key, margins[i])
		}
		s.scheduler.complete(q)
		for w := range q.waiters() {
			if err != nil || s.scheduler.setMargins(w, margins[i]) {
				s.end(w.job, err)
			}
		}
	}
	s.metrics.queueTokens.Set(float64(s.scheduler.tokens))
	s.metrics.cacheBytes.Set(float64(s.cache.bytes()))
}

func notFinite(m float32) bool { return math.IsNaN(float64(m)) || math.IsInf(float64(m), 0) }

// fail ends the job of a batch. The sequences that other jobs need are queued
// again, since it is unknown on which of them the model failed.
func (s *Scorer) fail(batch []*sequence, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end(batch[0].first.job, err)
	for _, q := range batch {
		s.scheduler.retry(q)
	}
	s.metrics.queueTokens.Set(float64(s.scheduler.tokens))
}

// end gives a job its outcome, once.
func (s *Scorer) end(j *job, err error) {
	if j.ended {
		return
	}
	s.remove(j)
	j.err = err
	close(j.done)
}
