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

// job is the part of a request that the model has to compute.
type job struct {
	margins   []float32   // by distinct instance; the largest of its windows so far
	sequences []*sequence // not yet in a batch, shortest first
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

// next cuts a batch, longest sequence first. It is empty when nothing waits.
func (b *backlog) next() (batch []*sequence, reason string) {
	if len(b.jobs) == 0 {
		return nil, reasonDrained
	}
	turn := slices.Clone(b.jobs)
	longest := len(turn[0].sequences[len(turn[0].sequences)-1].ids)
	taken := make([]int, len(turn)) // sequences of each job in the batch
	from := make([]int, len(turn))  // the end of those that are short enough
	for i := range from {
		from[i] = -1
	}
	real, reason := 0, reasonDrained
	for progress := true; progress && reason != reasonBudget; {
		progress = false
		for i, j := range turn {
			if from[i] < 0 {
				from[i] = fitting(j.sequences, longest)
			}
			if taken[i] == from[i] {
				continue
			}
			s := j.sequences[from[i]-taken[i]-1]
			padded := (len(batch) + 1) * longest
			if len(batch) > 0 && padded > b.budget {
				reason = reasonBudget
				break
			}
			if padded-real-len(s.ids) > b.overhead+padded/4 {
				reason = reasonPadding
				continue
			}
			batch = append(batch, s)
			real += len(s.ids)
			taken[i]++
			progress = true
		}
	}
	for i, j := range turn {
		j.sequences = slices.Delete(j.sequences, max(from[i], 0)-taken[i], max(from[i], 0))
	}
	b.jobs = append(turn[1:], turn[0])
	b.jobs = slices.DeleteFunc(b.jobs, func(j *job) bool { return len(j.sequences) == 0 })
	slices.SortStableFunc(batch, func(x, y *sequence) int { return byLength(y, x) })
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
