package rewardmodel

import (
	"iter"
	"slices"
	"time"
)

// priority is the numeric form of Priority: lower values go first.
type priority int

const (
	interactive priority = iota
	bulk
	priorities // how many there are
)

// waiter is a job that needs a sequence, and the instance that it is needed for.
type waiter struct {
	job    *job
	unique int // see job.marginsOf
	tokens int // of the sequence, with those of its context if it is the first of the job with it
}

// sequence is the input of the model for an instance: the whole of it, or one
// window. Jobs that hold the same text at the same time share a sequence: it is
// queued in each of them, and the first one that is scheduled has it computed
// for all.
type sequence struct {
	Sequence
	tokens int // that it adds to the queue: those of the waiter that queued it
	key    key
	whole  bool     // the only window: its margin is the instance's
	first  waiter   // the job that queued it
	also   []waiter // other jobs that need it
	taken  bool     // in a batch, or computed
}

func (q *sequence) waiters() iter.Seq[waiter] {
	return func(yield func(waiter) bool) {
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

// windowed identifies an instance of several windows.
type windowed struct {
	key    key
	unique int
}

// job is the part of a request that the model has to compute.
type job struct {
	priority  priority
	ticket    ticket
	exclusive func(bool)  // Request.Exclusive: it shares no batch; nil: it may
	aspects   int         // of the model
	margins   []float32   // by distinct instance and aspect; the maximum of its windows so far
	sequences []*sequence // queued, in the order of the request; another job's slot may have taken some
	windowed  []windowed  // instances to cache when the job is done
	remaining int         // sequences without a margin yet, including those in a batch
	tokens    int         // of the remaining sequences
	charge    int         // of these, how many count against the limit
	ended     bool        // completed, failed or canceled
	err       error       // why it failed; read it after done
	done      chan struct{}

	size       int // tokens at admission
	admittedAt int // what the scheduler had computed then

	admitted  time.Time
	started   bool          // a batch has held one of its sequences
	inference time.Duration // of the batches that held its sequences
	trace     *jobTrace     // nil: the request has no span
}

func newJob(p priority, aspects int) *job {
	return &job{priority: p, aspects: aspects, done: make(chan struct{})}
}

// marginsOf returns the margins of a distinct instance, one for each aspect.
func (j *job) marginsOf(unique int) []float32 { return j.margins[unique*j.aspects:][:j.aspects] }

// distinct is the number of distinct instances.
func (j *job) distinct() int { return len(j.margins) / j.aspects }

func (j *job) add(s Sequence, tokens int, k key, whole bool, unique int) {
	j.sequences = append(j.sequences, &sequence{Sequence: s, tokens: tokens, key: k, whole: whole, first: waiter{j, unique, tokens}})
	j.remaining++
	j.tokens += tokens
}

// next returns the first queued sequence of j; nil when there is none. It drops
// those that another job's slot has taken.
func (j *job) next() *sequence {
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
func (j *job) requeue(q *sequence) {
	if !slices.Contains(j.sequences, q) {
		j.sequences = append(j.sequences, q)
	}
}
