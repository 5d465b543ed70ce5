package rewardmodel

import "slices"

// class is a priority by number.
type class int

const (
	interactive class = iota
	bulk
	classes
)

// patience is how many turns in a row bulk jobs wait for interactive ones.
const patience = 3

// next cuts a batch. It is empty when nothing waits.
//
// Batches are cut in turns. The job whose turn it is gives a sequence, however
// long; then all jobs, that one first, give one after the other, each until its
// next does not fit. So a small job waits for at most one batch of each other
// job, however large those are.
//
// Interactive jobs have their turns before bulk jobs and fill the batch before
// them. To keep such a batch short, bulk jobs only fill it up to a quarter of
// the budget; but as much is theirs before all others once they have waited for
// a few turns, so that they never stand still.
//
// A job that must be alone has batches of its own: none is filled up with
// sequences of others, and it fills up no other job's.
func (b *backlog) next() (batch []*sequence, reason string) {
	if len(b.jobs) == 0 {
		return nil, reasonDrained
	}
	turn := b.turn()
	first := b.jobs[turn]
	b.jobs = slices.Insert(slices.Delete(b.jobs, turn, turn+1), 0, first)
	var giving [classes][]*job
	for _, j := range b.jobs {
		if j.alone == nil {
			giving[j.class] = append(giving[j.class], j)
		}
	}
	b.alone = first.alone
	var c cut
	switch {
	case first.alone != nil:
		c.fill([]*job{first}, b.budget)
	case len(giving[interactive]) == 0:
		c.fill(giving[bulk], b.budget)
	case first.class == bulk:
		c.fill(giving[bulk], b.budget/4)
		c.fill(giving[interactive], b.budget)
	default:
		c.fill(giving[interactive], b.budget)
		c.fill(giving[bulk], b.budget/4)
	}
	b.jobs = append(b.jobs[1:], first)
	b.jobs = slices.DeleteFunc(b.jobs, func(j *job) bool { return j.next() == nil })
	if len(b.jobs) > 0 {
		return c.batch, reasonBudget
	}
	return c.batch, reasonDrained
}

// turn is the index of the job whose turn it is.
func (b *backlog) turn() int {
	of := func(c class) int { return slices.IndexFunc(b.jobs, func(j *job) bool { return j.class == c }) }
	urgent, patient := of(interactive), of(bulk)
	if patient >= 0 && (urgent < 0 || b.passed == patience) {
		b.passed = 0
		return patient
	}
	b.passed++
	if patient < 0 {
		b.passed = 0
	}
	return urgent
}

// cut is a batch that is being filled.
type cut struct {
	batch  []*sequence
	tokens int
}

// fill takes sequences from the jobs in turn until none has one that keeps the
// batch within limit tokens. Into an empty batch any fits.
func (c *cut) fill(giving []*job, limit int) {
	for len(giving) > 0 {
		round := giving
		giving = giving[:0]
		for _, j := range round {
			q := j.next()
			if q == nil || len(c.batch) > 0 && c.tokens+len(q.ids) > limit {
				continue
			}
			q.taken = true
			c.batch = append(c.batch, q)
			c.tokens += len(q.ids)
			giving = append(giving, j)
		}
	}
}
