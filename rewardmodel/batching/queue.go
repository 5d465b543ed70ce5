package batching

import "time"

// Limits bound a Queue.
type Limits struct {
	BatchTokens int // tokens of a batch, unless one sequence is longer
	QueueTokens int // tokens that may be queued
	// QueueTime is the maximum time that the queued tokens may take to compute at the
	// measured throughput; 0: no such limit.
	QueueTime time.Duration
}

// shortTime is how long a batch with interactive jobs takes if bulk jobs fill it. A
// sentence of a live session waits for such a batch at most, and is computed in
// another: the aim is 50 ms, of which the rest is for all that is not the model.
const shortTime = 18 * time.Millisecond

// Queue holds the admitted jobs of one model. Its owner serializes the calls, whose times
// do not decrease. O is what a job is part of.
type Queue[O any] struct {
	limits     Limits
	scheduler  scheduler[O]
	throughput Throughput
	textCost   textCost
	waiting    [priorities]waitlist // of refused jobs
}

// New returns an empty queue.
func New[O any](limits Limits) *Queue[O] {
	return &Queue[O]{
		limits:     limits,
		scheduler:  scheduler[O]{budget: limits.BatchTokens, limit: limits.QueueTokens},
		throughput: Throughput{warmUp: limits.BatchTokens},
	}
}

// Waiting is the number of jobs with queued sequences.
func (q *Queue[O]) Waiting() int { return len(q.scheduler.jobs) }

// Tokens is the number of tokens that are queued or in a batch.
func (q *Queue[O]) Tokens() int { return q.scheduler.tokens }

// Empty reports whether no job waits or is computed, and nothing counts against the limits.
func (q *Queue[O]) Empty() bool {
	s := &q.scheduler
	return len(s.jobs) == 0 && len(s.pending) == 0 && s.tokens == 0 && s.held() == 0
}

// Batch is what a model computes at once.
type Batch[O any] struct {
	Sequences []*Sequence[O]
	Exclusive *Job[O] // the only job that it has sequences of; nil: jobs share it
	Reason    string  // why it was closed
}

// Next forms a batch. It is empty when nothing waits.
func (q *Queue[O]) Next() Batch[O] { return q.scheduler.nextBatch() }

// Computed counts a call of the model, and adapts the limits to its throughput.
func (q *Queue[O]) Computed(tokens int, took time.Duration) {
	q.throughput.Observe(tokens, took)
	s := &q.scheduler
	s.limit = q.queueLimit()
	for p := range priorities {
		if s.standing[p] > 0 {
			s.standing[p] = 0
			if s.waits(p) {
				s.standing[p] = q.standingLimit()
			}
		}
	}
	s.quick = q.throughput.capacity(shortTime)
}

// Complete ends the wait for a sequence of a batch, before its waiters get it.
func (q *Queue[O]) Complete(sequence *Sequence[O]) { q.scheduler.complete(sequence) }

// Deliver counts a sequence that a waiter has got, and reports whether its job is complete:
// its owner then removes it. A job that has ended gets nothing.
func (q *Queue[O]) Deliver(w Waiter[O]) (complete bool) { return q.scheduler.deliver(w) }

// Remove ends a job that completed, failed or was canceled. Sequences that other
// jobs need stay queued; those in a batch are ignored when they come back.
func (q *Queue[O]) Remove(j *Job[O]) { q.scheduler.remove(j) }

// Retry queues a sequence of a failed batch again, for the jobs that still wait
// for it.
func (q *Queue[O]) Retry(sequence *Sequence[O]) { q.scheduler.retry(sequence) }
