package batching

import (
	"cmp"
	"slices"
)

// scheduler queues the admitted jobs and forms batches from them; see nextBatch
// for the order. It is passive: no clock, no lock, no goroutine; its owner
// serializes the calls.
//
// A job counts against the limit with its tokens, but at most with a quarter
// of the limit: a job larger than the whole queue is admitted in pieces as it is
// computed, and small jobs cannot starve a large one. A priority that uses less
// than a quarter is admitted regardless of the other, so that neither can starve
// the other. While jobs of a priority are refused, it has a limit of its own.
type scheduler[O any] struct {
	budget int // tokens of a batch
	limit  int // tokens that may be queued
	quick  int // tokens that are computed soon enough for interactive jobs to wait for them; 0: unknown

	standing [priorities]int // tokens of a priority that may be queued instead; 0: as above

	jobs       []*Job[O] // with queued sequences, oldest first
	computed   int       // tokens of all batches since the start
	bulkWaited int       // slots in a row that went to interactive jobs while bulk jobs waited
	short      int       // the next batches that are short although no interactive job waits
	pending    map[Key]*Sequence[O]
	charged    [priorities]int // sums of the jobs' charges
	tokens     int             // of the pending sequences
}

// fits reports whether a job of priority p with that charge can be queued, if a
// part of the queue is reserved for each priority. A job always fits in an empty
// queue.
func (s *scheduler[O]) fits(p Priority, charge int, reserved [priorities]int) bool {
	own, all := s.charged[p]+reserved[p]+charge, s.held()+sum(reserved)+charge
	switch {
	case s.held() == 0:
		return true
	case s.standing[p] > 0:
		return own <= s.standing[p]
	}
	return all <= s.limit || own <= s.limit/4
}

// limitOf is the number of tokens of priority p that may be queued.
func (s *scheduler[O]) limitOf(p Priority) int {
	if s.standing[p] > 0 {
		return s.standing[p]
	}
	return s.limit
}

// excess is how many tokens have to be computed before a job of priority p fits.
func (s *scheduler[O]) excess(p Priority, tokens int) int {
	excess := s.tokens + tokens - s.limitOf(p)
	if s.charged[1-p] > 0 {
		own := s.charged[p] + s.charge(p, tokens) - s.limitOf(p)
		excess = min(excess, int(float64(own)/p.share()))
	}
	return max(0, excess)
}

// waits reports whether jobs of priority p are queued.
func (s *scheduler[O]) waits(p Priority) bool {
	return slices.ContainsFunc(s.jobs, func(j *Job[O]) bool { return j.Priority == p })
}

// held is the number of tokens that count against the limit.
func (s *scheduler[O]) held() int { return sum(s.charged) }

func sum(tokens [priorities]int) (sum int) {
	for _, n := range tokens {
		sum += n
	}
	return sum
}

// enqueue queues j. Sequences that are already pending are coalesced: they are
// computed once. It returns their number.
func (s *scheduler[O]) enqueue(j *Job[O]) (coalesced int) {
	j.size, j.admittedAt = j.tokens, s.computed
	j.charge = s.charge(j.Priority, j.tokens)
	s.charged[j.Priority] += j.charge
	if s.pending == nil {
		s.pending = make(map[Key]*Sequence[O], len(j.sequences))
	}
	queued := j.sequences[:0]
	for _, q := range j.sequences {
		if same, ok := s.pending[q.Key]; ok {
			coalesced++
			same.also = append(same.also, q.first)
			if q = same; q.taken {
				continue
			}
		} else {
			s.pending[q.Key] = q
			s.tokens += q.tokens
		}
		queued = append(queued, q)
	}
	clear(j.sequences[len(queued):])
	j.sequences = queued
	if len(queued) > 0 {
		s.jobs = append(s.jobs, j)
	}
	return coalesced
}

// charge is what a job of that many tokens counts against the limit.
func (s *scheduler[O]) charge(p Priority, tokens int) int { return min(tokens, max(s.limitOf(p)/4, 1)) }

// complete removes q from the pending sequences.
func (s *scheduler[O]) complete(q *Sequence[O]) {
	delete(s.pending, q.Key)
	s.tokens -= q.tokens
}

// deliver counts a sequence that a waiter has got, and reports whether its job is complete.
// A job that has ended gets nothing.
func (s *scheduler[O]) deliver(w Waiter[O]) (complete bool) {
	j := w.Job
	if j.ended {
		return false
	}
	j.remaining--
	j.tokens -= w.tokens
	s.charged[j.Priority] -= j.charge
	j.charge = s.charge(j.Priority, j.tokens)
	s.charged[j.Priority] += j.charge
	return j.remaining == 0
}

// remove ends a job that completed, failed or was canceled. Sequences that other
// jobs need stay queued; those in a batch are ignored when they come back.
func (s *scheduler[O]) remove(j *Job[O]) {
	if j.ended {
		return
	}
	j.ended = true
	s.charged[j.Priority] -= j.charge
	for _, q := range j.sequences {
		if !q.taken {
			s.dropEnded(q)
		}
	}
	j.sequences = nil
	s.jobs = slices.DeleteFunc(s.jobs, func(other *Job[O]) bool { return other == j })
}

// dropEnded drops the waiters of q whose job has ended, and q with the last of
// them.
func (s *scheduler[O]) dropEnded(q *Sequence[O]) {
	q.also = slices.DeleteFunc(q.also, func(w Waiter[O]) bool { return w.Job.ended })
	if !q.first.Job.ended {
		return
	}
	if len(q.also) == 0 {
		s.complete(q)
		q.taken = true
		return
	}
	q.first, q.also = q.also[0], q.also[1:]
}

// retry queues a sequence of a failed batch again, for the jobs that still wait
// for it.
func (s *scheduler[O]) retry(q *Sequence[O]) {
	q.taken = false
	s.dropEnded(q)
	if q.taken {
		return
	}
	for w := range q.Waiters() {
		w.Job.requeue(q)
		if !slices.Contains(s.jobs, w.Job) {
			s.jobs = append(s.jobs, w.Job)
		}
	}
	slices.SortStableFunc(s.jobs, func(a, b *Job[O]) int { return cmp.Compare(a.admittedAt, b.admittedAt) })
}

// minTokens is about the minimum number of tokens that are computed before j, which is
// not queued yet, is done, its own included: it waits for interactive jobs, unless it
// is one, and for those whose response ratio is higher, until it overtakes them.
func (s *scheduler[O]) minTokens(j *Job[O]) int {
	own, others := 0, 0
	for _, q := range j.sequences {
		if s.pending[q.Key] == nil {
			own += q.tokens
		}
	}
	ratio := s.responseRatio(&Job[O]{size: j.tokens, admittedAt: s.computed})
	for _, other := range s.jobs {
		if other.Priority < j.Priority || other.Priority == j.Priority && s.responseRatio(other) >= ratio {
			others += min(other.tokens, own)
		}
	}
	return own + min(others, s.tokens) // what others share is computed once
}
