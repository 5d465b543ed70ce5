package rewardmodel

import (
	"iter"
	"slices"
	"time"
)

// waiter is a job that needs a sequence, and for which of its instances.
type waiter struct {
	job    *job
	unique int // index into job.margins
}

// sequence is what the model sees of an instance: the whole, or one window. Jobs
// that hold the same text at the same time share it: it stands in line for each
// of them, and the first turn that comes has it computed for all.
type sequence struct {
	ids   []int32
	key   key
	whole bool     // the only window: its margin is the instance's
	first waiter   // who needs it
	also  []waiter // and who else
	taken bool     // in a batch, or computed
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

// windowed names an instance of several windows.
type windowed struct {
	key    key
	unique int
}

// job is the part of a request that the model has to compute.
type job struct {
	class     class
	alone     func(bool)  // Request.Alone: it shares no batch; nil: it may
	margins   []float32   // by distinct instance; the largest of its windows so far
	sequences []*sequence // in line, in the order of the request; some may have been taken by another job's turn
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

func newJob(c class) *job { return &job{class: c, done: make(chan struct{})} }

func (j *job) add(ids []int32, k key, whole bool, unique int) {
	j.sequences = append(j.sequences, &sequence{ids: ids, key: k, whole: whole, first: waiter{j, unique}})
	j.unread++
	j.tokens += len(ids)
}

// next is the sequence that j gives next; nil when it has none left. Those that
// another job's turn has taken leave its line.
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

// putBack has q stand in line again, unless it never left it.
func (j *job) putBack(q *sequence) {
	if !slices.Contains(j.sequences, q) {
		j.sequences = append(j.sequences, q)
	}
}

// Why a batch was closed.
const (
	reasonBudget  = "budget"  // what waits would pass the token budget, or the share of its class
	reasonDrained = "drained" // nothing else waits
)

// backlog holds the admitted jobs. It is passive: no clock, no lock, no
// goroutine; its owner serialises the calls. turns.go cuts batches from it.
//
// A job counts against the limit with its tokens, but at most with a quarter
// of the limit: a job larger than the whole queue is fed in pieces as it is
// computed, and no job is so large that small ones keep it out for ever. A
// class that holds less than a quarter is admitted whatever the other holds, so
// that neither can shut the other out.
type backlog struct {
	budget int // tokens of a batch
	limit  int // tokens that may wait

	alone   func(bool) // Request.Alone of the batch that was cut last, or nil
	jobs    []*job     // with sequences in line; those at the front have their turn next
	passed  int        // turns in a row that bulk jobs have waited for interactive ones
	pending map[key]*sequence
	charged [classes]int // sums of the jobs' charges
	tokens  int          // of the pending sequences
	joined  int          // sequences that were pending already when a job needed them, ever
}

// full tells that no job of that class would be admitted.
func (b *backlog) full(c class) bool {
	return b.held() >= b.limit && b.charged[c] >= max(b.limit/4, 1)
}

// held is what counts against the limit.
func (b *backlog) held() (sum int) {
	for _, n := range b.charged {
		sum += n
	}
	return sum
}

// admit takes j in, or reports false when there is no room for it. What is
// pending already is not computed twice.
func (b *backlog) admit(j *job) bool {
	charge := b.charge(j)
	if held := b.held(); held > 0 && held+charge > b.limit && b.charged[j.class]+charge > b.limit/4 {
		return false
	}
	j.charge = charge
	b.charged[j.class] += charge
	if b.pending == nil {
		b.pending = make(map[key]*sequence, len(j.sequences))
	}
	inLine := j.sequences[:0]
	for _, q := range j.sequences {
		if same, ok := b.pending[q.key]; ok {
			b.joined++
			same.also = append(same.also, q.first)
			if q = same; q.taken {
				continue
			}
		} else {
			b.pending[q.key] = q
			b.tokens += len(q.ids)
		}
		inLine = append(inLine, q)
	}
	clear(j.sequences[len(inLine):])
	j.sequences = inLine
	if len(inLine) > 0 {
		b.jobs = append(b.jobs, j)
	}
	return true
}

func (b *backlog) charge(j *job) int { return min(j.tokens, max(b.limit/4, 1)) }

// settle ends what is to be computed of q.
func (b *backlog) settle(q *sequence) {
	delete(b.pending, q.key)
	b.tokens -= len(q.ids)
}

// finish gives a waiter of q its margin, and reports whether its job is complete.
func (b *backlog) finish(q *sequence, w waiter, margin float32) bool {
	j := w.job
	if j.left {
		return false
	}
	j.margins[w.unique] = max(j.margins[w.unique], margin)
	j.unread--
	j.tokens -= len(q.ids)
	b.charged[j.class] -= j.charge
	j.charge = b.charge(j)
	b.charged[j.class] += j.charge
	return j.unread == 0
}

// remove takes out a job that nobody waits for, or that failed. What others
// need of it stays theirs; what is in a batch is ignored when it comes back.
func (b *backlog) remove(j *job) {
	if j.left {
		return
	}
	j.left = true
	b.charged[j.class] -= j.charge
	for _, q := range j.sequences {
		if !q.taken {
			b.abandon(q)
		}
	}
	j.sequences = nil
	b.jobs = slices.DeleteFunc(b.jobs, func(other *job) bool { return other == j })
}

// abandon drops the waiters of q that have left, and q with the last of them.
func (b *backlog) abandon(q *sequence) {
	q.also = slices.DeleteFunc(q.also, func(w waiter) bool { return w.job.left })
	if !q.first.job.left {
		return
	}
	if len(q.also) == 0 {
		b.settle(q)
		q.taken = true
		return
	}
	q.first, q.also = q.also[0], q.also[1:]
}

// retry has a sequence of a batch that failed computed again, for those that
// are still waiting.
func (b *backlog) retry(q *sequence) {
	q.taken = false
	b.abandon(q)
	if q.taken {
		return
	}
	for w := range q.waiters() {
		w.job.putBack(q)
		if !slices.Contains(b.jobs, w.job) {
			b.jobs = append(b.jobs, w.job)
		}
	}
}

// least is how many tokens are computed at least before j would be done, its
// own included: the jobs of a class get equal shares, and interactive ones go
// first.
func (b *backlog) least(j *job) int {
	own, others := 0, 0
	for _, q := range j.sequences {
		if b.pending[q.key] == nil {
			own += len(q.ids)
		}
	}
	for _, other := range b.jobs {
		if other.class <= j.class {
			others += min(other.tokens, own)
		}
	}
	return own + min(others, b.tokens) // what others share is computed once
}
