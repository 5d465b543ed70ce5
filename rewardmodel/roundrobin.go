package rewardmodel

import "slices"

// starvationLimit is the maximum number of consecutive slots that bulk jobs wait
// for interactive ones.
const starvationLimit = 3

// share is the least part of the throughput that a priority gets.
func (p priority) share() float64 {
	if p == bulk {
		return 1.0 / (starvationLimit + 1)
	}
	return 1 - bulk.share()
}

// shortBatches is the number of batches after the last interactive job that are
// still short: as long as such jobs keep coming, each waits for a short batch.
const shortBatches = 4

// Why a batch was closed.
const (
	reasonBudget  = "budget"  // the next sequences would exceed the token budget, or the share of their priority
	reasonDrained = "drained" // nothing else waits
)

// nextBatch forms a batch. It is empty when nothing waits.
//
// Jobs are scheduled round-robin. Each batch is the slot of one job, which adds its
// next sequence of any length; then all jobs, starting with that one, add one
// sequence at a time, each until its next one does not fit. A small job therefore
// waits for at most one batch of each other job, regardless of their size.
//
// Interactive jobs get their slots before bulk jobs and fill the batch before
// them. To keep such a batch short, and those after it, for which the next
// interactive job waits, bulk jobs fill them only up to shortBudget; but once they
// have waited for starvationLimit slots, they fill as much before all others, so
// that they never stop.
//
// An exclusive job has batches of its own: sequences of other jobs never fill
// them up, and its sequences never fill up another job's batch.
func (s *scheduler) nextBatch() (batch []*sequence, reason string) {
	if len(s.jobs) == 0 {
		return nil, reasonDrained
	}
	slot := s.nextSlot()
	first := s.jobs[slot]
	s.jobs = slices.Insert(slices.Delete(s.jobs, slot, slot+1), 0, first)
	var shared [priorities][]*job
	for _, j := range s.jobs {
		if j.exclusive == nil {
			shared[j.priority] = append(shared[j.priority], j)
		}
	}
	s.exclusive = first.exclusive
	bulkBudget := s.budget
	switch {
	case len(shared[interactive]) > 0:
		bulkBudget, s.short = s.shortBudget(), shortBatches
	case s.short > 0:
		bulkBudget, s.short = s.shortBudget(), s.short-1
	}
	var b batchBuilder
	switch {
	case first.exclusive != nil:
		b.fill([]*job{first}, s.budget)
	case first.priority == bulk:
		b.fill(shared[bulk], bulkBudget)
		b.fill(shared[interactive], s.budget)
	default:
		b.fill(shared[interactive], s.budget)
		b.fill(shared[bulk], bulkBudget)
	}
	s.jobs = append(s.jobs[1:], first)
	s.jobs = slices.DeleteFunc(s.jobs, func(j *job) bool { return j.next() == nil })
	if len(s.jobs) > 0 {
		return b.batch, reasonBudget
	}
	return b.batch, reasonDrained
}

// shortBudget is the number of tokens of a short batch: those that are computed
// quickly, in eighths of the budget, which are sizes that the model need not pad.
// Below a quarter of it, each token would cost more.
func (s *scheduler) shortBudget() int {
	step := max(1, s.budget/8)
	return min(s.budget, max(s.quick/step, 2)*step)
}

// nextSlot returns the index of the job that gets the next slot.
func (s *scheduler) nextSlot() int {
	first := func(p priority) int {
		return slices.IndexFunc(s.jobs, func(j *job) bool { return j.priority == p })
	}
	interactiveJob, bulkJob := first(interactive), first(bulk)
	if bulkJob >= 0 && (interactiveJob < 0 || s.bulkWaited == starvationLimit) {
		s.bulkWaited = 0
		return bulkJob
	}
	s.bulkWaited++
	if bulkJob < 0 {
		s.bulkWaited = 0
	}
	return interactiveJob
}

// batchBuilder is a batch that is being filled.
type batchBuilder struct {
	batch    []*sequence
	tokens   int
	contexts map[*int32]bool // in the batch, by their first token
}

// cost is the number of tokens that q adds to the batch.
func (b *batchBuilder) cost(q *sequence) int {
	if len(q.Context) == 0 || b.contexts[&q.Context[0]] {
		return len(q.IDs)
	}
	return len(q.IDs) + len(q.Context)
}

func (b *batchBuilder) add(q *sequence) {
	b.tokens += b.cost(q)
	b.batch = append(b.batch, q)
	if len(q.Context) == 0 {
		return
	}
	if b.contexts == nil {
		b.contexts = map[*int32]bool{}
	}
	b.contexts[&q.Context[0]] = true
}

// fill takes one sequence of each job in rounds, until no job has one that keeps
// the batch within limit tokens. An empty batch takes a sequence of any length.
func (b *batchBuilder) fill(jobs []*job, limit int) {
	for len(jobs) > 0 {
		round := jobs
		jobs = jobs[:0]
		for _, j := range round {
			q := j.next()
			if q == nil || len(b.batch) > 0 && b.tokens+b.cost(q) > limit {
				continue
			}
			q.taken = true
			b.add(q)
			jobs = append(jobs, j)
		}
	}
}
