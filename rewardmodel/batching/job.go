package batching

import (
	"iter"
	"slices"
)

// Priority orders jobs: lower values go first.
type Priority int

// The priorities of jobs. Neither starves the other.
const (
	Interactive Priority = iota
	Bulk
	priorities // how many there are
)

// Input is what a model reads for a sequence.
type Input struct {
	// IDs are its own tokens, with special tokens.
	IDs []int32
	// Context is the tokens of what it is read after, with special tokens; empty:
	// none. Sequences of a batch that have the same slice share its computation.
	Context []int32
}

// Key identifies an input: sequences with the same key are computed once while they are
// pending.
type Key struct{ Hi, Lo uint64 }

// Sequence is an input that is queued, or in a batch. Jobs that hold the same one at the
// same time share it: it is queued in each of them, and the first one that is scheduled
// has it computed for all.
type Sequence[O any] struct {
	Input
	Key    Key
	Whole  bool        // for the owner: no other sequence has a part of the same text
	tokens int         // that it adds to the queue: those of the waiter that queued it
	first  Waiter[O]   // the job that queued it
	also   []Waiter[O] // other jobs that need it
	taken  bool        // in a batch, or computed
}

// Waiter is a job that needs a sequence.
type Waiter[O any] struct {
	Job    *Job[O]
	Place  int // for the owner: what the job needs it for
	tokens int // of the sequence, with those of its context if it is the first of the job with it
}

// First is the job that queued the sequence.
func (q *Sequence[O]) First() *Job[O] { return q.first.Job }

// Waiters are the jobs that need the sequence.
func (q *Sequence[O]) Waiters() iter.Seq[Waiter[O]] {
	return func(yield func(Waiter[O]) bool) {
		if !yield(q.first) {
			return
		}
		for _, w := range q.also {
			if !yield(w) {
				return
			}
		}
	}
}

// Job is what the model has to compute for one caller. Set the exported fields before it
// is admitted.
type Job[O any] struct {
	Owner     O // that the job is part of
	Priority  Priority
	Ticket    Ticket
	Exclusive bool // it shares no batch

	sequences []*Sequence[O] // queued, in the order in which they were added; another job's slot may have taken some
	remaining int            // sequences that are not computed yet, including those in a batch
	tokens    int            // of the remaining sequences
	charge    int            // of these, how many count against the limit
	ended     bool           // completed, failed or canceled

	size       int // tokens at admission
	admittedAt int // what the scheduler had computed then
}

// Add appends a sequence, which adds that many tokens to the queue.
func (j *Job[O]) Add(in Input, tokens int, key Key, whole bool, place int) {
	j.sequences = append(j.sequences, &Sequence[O]{Input: in, tokens: tokens, Key: key, Whole: whole, first: Waiter[O]{j, place, tokens}})
	j.remaining++
	j.tokens += tokens
}

// Tokens is the number of tokens of the sequences that are not computed yet.
func (j *Job[O]) Tokens() int { return j.tokens }

// Remaining is the number of sequences that are not computed yet.
func (j *Job[O]) Remaining() int { return j.remaining }

// Ended reports whether the job has completed, or was removed.
func (j *Job[O]) Ended() bool { return j.ended }

// next returns the first queued sequence of j; nil when there is none. It drops
// those that another job's slot has taken.
func (j *Job[O]) next() *Sequence[O] {
	for len(j.sequences) > 0 && j.sequences[0].taken {
		j.sequences[0] = nil // the slice keeps its array
		j.sequences = j.sequences[1:]
	}
	if len(j.sequences) == 0 {
		return nil
	}
	return j.sequences[0]
}

// requeue appends q to the queue of j, unless it is still there.
func (j *Job[O]) requeue(q *Sequence[O]) {
	if !slices.Contains(j.sequences, q) {
		j.sequences = append(j.sequences, q)
	}
}
