package rewardmodel

import (
	"slices"
	"time"
)

// sequence is what the model sees of an instance: the whole, or one window.
type sequence struct {
	ids    []int32
	key    key
	whole  bool // the only window: its margin is the instance's
	job    *job
	unique int // index into job.margins
}

// windowed names an instance of several windows.
type windowed struct {
	key    key
	unique int
}

// job is the part of a request that the model has to compute.
type job struct {
	margins   []float32   // by distinct instance; the largest of its windows so far
	sequences []*sequence // not yet in a batch, shortest first
	windowed  []windowed  // instances that the cache learns of when the job is done
	unread    int         // sequences without a margin yet, those in a batch too
	tokens    int         // of the unread sequences
	charge    int         // of these, how many count against the limit
	left      bool        // nobody waits any more
	err       error       // why it failed; read it after done
	done      chan struct{}

	admitted  time.Time
	started   bool          // a batch has held it
	inference time.Duration // of the batches that held it
}

func newJob() *job { return &job{done: make(chan struct{})} }

func (j *job) add(s *sequence) {
	j.sequences = append(j.sequences, s)
	j.unread++
	j.tokens += len(s.ids)
}

func byLength(a, b *sequence) int { return len(a.ids) - len(b.ids) }

// Why a batch was closed.
const (
	reasonBudget  = "budget"  // one more sequence would pass the token budget
	reasonPadding = "padding" // what waits is so short that it would be mostly padding
	reasonDrained = "drained" // nothing else waits
)

// backlog holds the admitted jobs and cuts batches from them. It is passive: no
// clock, no lock, no goroutine; its owner serialises the calls.
//
// A job counts against the limit with its tokens, but at most with a quarter
// of the limit: a job larger than the whole queue is fed in pieces as it is
// computed, and no job is so large that small ones keep it out for ever.
//
// Batches are cut in turns. The job whose turn it is gives its longest
// sequence, which sets the padded length; then all jobs, that one first, give
// one sequence after the other of at most that length. So a small job waits for
// at most one batch of each other job, however large those are.
type backlog struct {
	budget   int // padded tokens of a batch
	overhead int // tokens of padding that are cheaper than one more batch
	limit    int // tokens that may wait

	jobs    []*job // with sequences left; the first one's turn is next
	charged int    // sum of the jobs' charges
	tokens  int    // sum of the jobs' tokens
}

// full tells that no job would be admitted.
func (b *backlog) full() bool { return b.charged >= b.limit && b.charged > 0 }

// admit takes j in, or reports false when there is no room for it.
func (b *backlog) admit(j *job) bool {
	charge := b.charge(j)
	if b.charged > 0 && b.charged+charge > b.limit {
		return false
	}
	slices.SortStableFunc(j.sequences, byLength)
	j.charge = charge
	b.charged += charge
	b.tokens += j.tokens
	b.jobs = append(b.jobs, j)
	return true
}

func (b *backlog) charge(j *job) int { return min(j.tokens, max(b.limit/4, 1)) }

// share is what a job may give to a batch.
type share struct {
	job   *job
	end   int // its sequences before end are short enough
	taken int // of these, the last ones are in the batch
}

// next cuts a batch, longest sequence first. It is empty when nothing waits.
func (b *backlog) next() (batch []*sequence, reason string) {
	if len(b.jobs) == 0 {
		return nil, reasonDrained
	}
	first := b.jobs[0].sequences
	longest := len(first[len(first)-1].ids)
	shares := make([]share, len(b.jobs))
	giving := make([]*share, len(b.jobs)) // those that may still give
	for i, j := range b.jobs {
		shares[i] = share{job: j, end: fitting(j.sequences, longest)}
		giving[i] = &shares[i]
	}
	batch, reason = b.fill(giving, longest)
	for _, s := range shares {
		s.job.sequences = slices.Delete(s.job.sequences, s.end-s.taken, s.end)
	}
	b.jobs = append(b.jobs[1:], b.jobs[0])
	b.jobs = slices.DeleteFunc(b.jobs, func(j *job) bool { return len(j.sequences) == 0 })
	slices.SortStableFunc(batch, func(x, y *sequence) int { return byLength(y, x) })
	return batch, reason
}

// fill takes sequences from the shares in turn until none may give any more.
func (b *backlog) fill(giving []*share, longest int) (batch []*sequence, reason string) {
	reason = reasonDrained
	tokens := 0
	for len(giving) > 0 {
		round := giving
		giving = giving[:0]
		for _, s := range round {
			if s.taken == s.end {
				continue
			}
			next := s.job.sequences[s.end-s.taken-1]
			padded := (len(batch) + 1) * longest
			if len(batch) > 0 && padded > b.budget {
				return batch, reasonBudget
			}
			if padded-tokens-len(next.ids) > b.overhead+padded/4 {
				reason = reasonPadding
				continue
			}
			batch = append(batch, next)
			tokens += len(next.ids)
			s.taken++
			giving = append(giving, s)
		}
	}
	return batch, reason
}

// fitting is the number of sequences of at most length tokens.
func fitting(sequences []*sequence, length int) int {
	n, _ := slices.BinarySearchFunc(sequences, length+1, func(s *sequence, n int) int { return len(s.ids) - n })
	return n
}

// finish records the margin of a sequence that a batch held, and reports
// whether its job is complete.
func (b *backlog) finish(s *sequence, margin float32) bool {
	j := s.job
	if j.left {
		return false
	}
	j.margins[s.unique] = max(j.margins[s.unique], margin)
	j.unread--
	j.tokens -= len(s.ids)
	b.tokens -= len(s.ids)
	b.charged -= j.charge
	j.charge = b.charge(j)
	b.charged += j.charge
	return j.unread == 0
}

// remove takes out a job that nobody waits for, or that failed. Its sequences
// that are in a batch are ignored when they come back.
func (b *backlog) remove(j *job) {
	if j.left {
		return
	}
	j.left = true
	b.tokens -= j.tokens
	b.charged -= j.charge
	b.jobs = slices.DeleteFunc(b.jobs, func(other *job) bool { return other == j })
}
