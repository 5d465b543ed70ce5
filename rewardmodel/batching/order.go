package batching

import (
	"cmp"
	"slices"
)

// starvationLimit is the maximum number of consecutive slots that bulk jobs wait
// for interactive ones.
const starvationLimit = 3

// share is the least part of the throughput that a priority gets.
func (p Priority) share() float64 {
	if p == Bulk {
		return 1.0 / (starvationLimit + 1)
	}
	return 1 - Bulk.share()
}

// oldestDivisor divides the budget of a batch: the quotient is filled in the order of
// arrival before all else.
const oldestDivisor = 8

// shortBatches is the number of batches after the last interactive job that are
// still short: as long as such jobs keep coming, each waits for a short batch.
const shortBatches = 4

// Why a batch was closed.
const (
	ReasonBudget  = "budget"  // the next sequences would exceed the token budget, or the share of their priority
	ReasonDrained = "drained" // nothing else waits
)

// nextBatch forms a batch. It is empty when nothing waits.
//
// The jobs of a priority are served by their response ratio: the time that a job has
// waited, relative to the time that it takes. So a small one overtakes a large one,
// unless that has waited for proportionally longer. No job starves: each slot of its
// priority first fills budget/oldestDivisor in the order of arrival. Since a
// sequence that exceeds that part begins the next slot, any two slots compute more
// than it of the jobs that were queued when a job came, until that one is done.
//
// Interactive jobs get their slots before bulk jobs and fill the batch before
// them. To keep such a batch short, and those after it, for which the next
// interactive job waits, bulk jobs fill them only up to shortBudget; but once they
// have waited for starvationLimit slots, they fill as much before all others, so
// that they never stop.
//
// An exclusive job has batches of its own, once it is the oldest: sequences of other
// jobs never fill them up, and its sequences never fill up another job's batch.
func (s *scheduler[O]) nextBatch() Batch[O] {
	if len(s.jobs) == 0 {
		return Batch[O]{Reason: ReasonDrained}
	}
	oldest := s.nextSlot()
	shared := s.shared()
	budgets := [priorities]int{Interactive: s.budget, Bulk: s.budget}
	switch {
	case len(shared[Interactive]) > 0:
		budgets[Bulk], s.short = s.shortBudget(), shortBatches
	case s.short > 0:
		budgets[Bulk], s.short = s.shortBudget(), s.short-1
	}
	var b batchBuilder[O]
	batch := Batch[O]{Reason: ReasonDrained}
	if oldest.Exclusive {
		batch.Exclusive = oldest
		b.fill([]*Job[O]{oldest}, s.budget)
	} else {
		own, other := oldest.Priority, 1-oldest.Priority
		b.fill(shared[own], budgets[own]/oldestDivisor)
		b.fill(s.byResponseRatio(shared[own]), budgets[own])
		b.fill(s.byResponseRatio(shared[other]), budgets[other])
	}
	s.computed += b.tokens
	s.jobs = slices.DeleteFunc(s.jobs, func(j *Job[O]) bool { return j.next() == nil })
	if len(s.jobs) > 0 {
		batch.Reason = ReasonBudget
	}
	batch.Sequences = b.batch
	return batch
}

// shared returns the jobs of each priority that may share a batch, oldest first.
func (s *scheduler[O]) shared() (shared [priorities][]*Job[O]) {
	for _, j := range s.jobs {
		if !j.Exclusive {
			shared[j.Priority] = append(shared[j.Priority], j)
		}
	}
	return shared
}

// byResponseRatio sorts jobs, those with the highest response ratio first.
func (s *scheduler[O]) byResponseRatio(jobs []*Job[O]) []*Job[O] {
	slices.SortStableFunc(jobs, func(a, b *Job[O]) int { return cmp.Compare(s.responseRatio(b), s.responseRatio(a)) })
	return jobs
}

// responseRatio is the time from when j was admitted, during a batch, to the end of the
// next one, relative to the time that the model needs for j alone, both in tokens. Its
// size is that at admission: with the remaining tokens, a large job that is almost done
// would hold up all others.
func (s *scheduler[O]) responseRatio(j *Job[O]) float64 {
	return float64(s.computed-j.admittedAt+2*s.budget) / float64(j.size)
}

// shortBudget is the number of tokens of a short batch: those that are computed
// quickly, in eighths of the budget, which are sizes that the model need not pad.
// Below a quarter of it, each token would cost more.
func (s *scheduler[O]) shortBudget() int {
	step := max(1, s.budget/8)
	return min(s.budget, max(s.quick/step, 2)*step)
}

// nextSlot returns the oldest job of the priority that gets the next slot.
func (s *scheduler[O]) nextSlot() *Job[O] {
	var oldest [priorities]*Job[O]
	for _, j := range slices.Backward(s.jobs) {
		oldest[j.Priority] = j
	}
	switch {
	case oldest[Bulk] == nil:
		s.bulkWaited = 0
	case oldest[Interactive] == nil || s.bulkWaited == starvationLimit:
		s.bulkWaited = 0
		return oldest[Bulk]
	default:
		s.bulkWaited++
	}
	return oldest[Interactive]
}

// batchBuilder is a batch that is being filled.
type batchBuilder[O any] struct {
	counter
	batch []*Sequence[O]
}

// fill takes the sequences of each job in turn, until its next one would exceed limit
// tokens. An empty batch takes a sequence of any length.
func (b *batchBuilder[O]) fill(jobs []*Job[O], limit int) {
	for _, j := range jobs {
		for q := j.next(); q != nil && (len(b.batch) == 0 || b.tokens+b.cost(q.Input) <= limit); q = j.next() {
			q.taken = true
			b.add(q.Input)
			b.batch = append(b.batch, q)
		}
	}
}
