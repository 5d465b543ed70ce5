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

// share is what a job may give to a batch.
type share struct {
	job  *job
	end  int // its sequences before end are short enough
	used int // of these, the last ones are in the batch, or have been in another
}

// next is the longest sequence that s can still give.
func (s *share) next() *sequence {
	for ; s.used < s.end; s.used++ {
		if q := s.job.sequences[s.end-s.used-1]; !q.taken {
			return q
		}
	}
	return nil
}

// next cuts a batch, longest sequence first. It is empty when nothing waits.
//
// Batches are cut in turns. The job whose turn it is gives its longest
// sequence, which sets the padded length; then all jobs, that one first, give
// one sequence after the other of at most that length. So a small job waits for
// at most one batch of each other job, however large those are.
//
// Interactive jobs have their turns before bulk jobs and fill the batch before
// them. To keep such a batch short, bulk jobs only fill it up to a quarter of
// the budget; but as much is theirs before all others once they have waited for
// a few turns, so that they never stand still.
func (b *backlog) next() (batch []*sequence, reason string) {
	if len(b.jobs) == 0 {
		return nil, reasonDrained
	}
	turn := b.turn()
	first := b.jobs[turn]
	b.jobs = slices.Insert(slices.Delete(b.jobs, turn, turn+1), 0, first)
	c := cut{overhead: b.overhead, longest: len(first.sequences[len(first.sequences)-1].ids), reason: reasonDrained}
	shares := make([]share, len(b.jobs))
	var giving [classes][]*share
	for i, j := range b.jobs {
		shares[i] = share{job: j, end: fitting(j.sequences, c.longest)}
		giving[j.class] = append(giving[j.class], &shares[i])
	}
	switch {
	case len(giving[interactive]) == 0:
		c.fill(giving[bulk], b.budget)
	case first.class == bulk:
		c.fill(giving[bulk], b.budget/4)
		c.fill(giving[interactive], b.budget)
	default:
		c.fill(giving[interactive], b.budget)
		c.fill(giving[bulk], b.budget/4)
	}
	for _, s := range shares {
		s.job.sequences = slices.Delete(s.job.sequences, s.end-s.used, s.end)
	}
	b.jobs = append(b.jobs[1:], b.jobs[0])
	b.jobs = slices.DeleteFunc(b.jobs, func(j *job) bool {
		j.trim()
		return len(j.sequences) == 0
	})
	slices.SortStableFunc(c.batch, func(x, y *sequence) int { return byLength(y, x) })
	return c.batch, c.reason
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
	overhead, longest int

	batch  []*sequence
	tokens int
	reason string
}

// fill takes sequences from the shares in turn until none may give any more, or
// the batch has as many padded tokens as limit says.
func (c *cut) fill(giving []*share, limit int) {
	for len(giving) > 0 {
		round := giving
		giving = giving[:0]
		for _, s := range round {
			q := s.next()
			if q == nil {
				continue
			}
			padded := (len(c.batch) + 1) * c.longest
			if len(c.batch) > 0 && padded > limit {
				c.reason = reasonBudget
				return
			}
			if padded-c.tokens-len(q.ids) > c.overhead+padded/4 {
				c.reason = reasonPadding
				continue
			}
			q.taken = true
			s.used++
			c.batch = append(c.batch, q)
			c.tokens += len(q.ids)
			giving = append(giving, s)
		}
	}
}
