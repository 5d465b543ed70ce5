package batching

import (
	"math"
	"slices"
	"testing"
)

// bulkOf returns a bulk job.
func bulkOf(lengths ...int) *Job[owner] {
	j := jobOf(lengths...)
	j.Priority = Bulk
	return j
}

func TestInteractiveGoesFirst(t *testing.T) {
	s := scheduler[owner]{budget: 400, limit: 1 << 20}
	s.admit(bulkOf(slices.Repeat([]int{10}, 1000)...))
	s.nextBatch()
	for range 2 {
		s.admit(jobOf(12, 10, 10))
	}
	batch, _ := s.next()
	urgent := 0
	for _, q := range batch {
		if q.first.Job.Priority == Interactive {
			urgent++
		}
	}
	if urgent != 6 {
		t.Errorf("%d of 6 interactive sequences are in the next batch", urgent)
	}
	if tokens := tokensOf(batch); tokens > 100 || tokens < 91 {
		t.Errorf("%d tokens: want what bulk work of 10 each can fill of 100", tokens)
	}
	for range shortBatches {
		if batch, reason := s.next(); len(batch) != 10 || reason != ReasonBudget {
			t.Errorf("bulk work for which an interactive job may wait: %d sequences, %s", len(batch), reason)
		}
	}
	if batch, reason := s.next(); len(batch) != 40 || reason != ReasonBudget {
		t.Errorf("then only bulk work: %d sequences, %s", len(batch), reason)
	}
}

// A batch with interactive jobs takes as many tokens as are computed quickly, in sizes
// that the model need not pad.
func TestShortBudget(t *testing.T) {
	for quick, want := range map[int]int{0: 256, 200: 256, 383: 256, 384: 384, 600: 512, 1023: 896, 1024: 1024, math.MaxInt32: 1024} {
		s := scheduler[owner]{budget: 1024, limit: 1 << 20, quick: quick}
		if got := s.shortBudget(); got != want {
			t.Errorf("%d tokens are computed quickly: a budget of %d, want %d", quick, got, want)
		}
		s.admit(bulkOf(slices.Repeat([]int{8}, 1000)...))
		s.admit(jobOf(8))
		if batch, _ := s.next(); tokensOf(batch) != want {
			t.Errorf("%d tokens are computed quickly: a batch of %d, want %d", quick, tokensOf(batch), want)
		}
	}
	for _, budget := range []int{1, 3, 10} {
		s := scheduler[owner]{budget: budget}
		if got := s.shortBudget(); got < 1 || got > budget {
			t.Errorf("a short batch of %d tokens of %d", got, budget)
		}
	}
}

// Bulk work continues under any amount of interactive work, and the reverse.
func TestBulkIsNeverStarved(t *testing.T) {
	for _, length := range []int{5, 10, 40, 150} {
		s := scheduler[owner]{budget: 400, limit: 1 << 20}
		late := bulkOf(slices.Repeat([]int{length}, 100)...)
		s.admit(late)
		batches := 0
		for ; late.remaining > 0; batches++ {
			for range 21 {
				s.admit(jobOf(10, 10))
			}
			batch, _ := s.next()
			computed(&s, batch)
			if batches > 100*length {
				t.Fatalf("%d of 100 sequences of %d tokens wait after %d batches", late.remaining, length, batches)
			}
		}
		perBatch := max(1, 100/length) // in a quarter of the budget, at every fourth slot
		if limit := 4 * (100 + perBatch - 1) / perBatch; batches > limit {
			t.Errorf("100 sequences of %d tokens took %d batches, want at most %d", length, batches, limit)
		}
	}
}

// Neither priority can block the other.
func TestPrioritiesAreAdmittedSeparately(t *testing.T) {
	for _, first := range []Priority{Interactive, Bulk} {
		s := scheduler[owner]{budget: 100, limit: 100}
		of := func(p Priority, lengths ...int) *Job[owner] {
			j := jobOf(lengths...)
			j.Priority = p
			return j
		}
		for range 4 {
			if !s.admit(of(first, 25)) {
				t.Fatal("not admitted")
			}
		}
		if other := 1 - first; !s.full(first) || s.admit(of(first, 1)) || s.full(other) || !s.admit(of(other, 25)) || !s.full(other) || s.admit(of(other, 1)) {
			t.Errorf("with the queue full of priority %d: held %v", first, s.charged)
		}
	}
}

// Where jobs of one priority were refused, the other has its usual limit.
func TestPrioritiesStandSeparately(t *testing.T) {
	s := scheduler[owner]{budget: 100, limit: 1000}
	of := func(p Priority, tokens int) *Job[owner] {
		j := jobOf(tokens)
		j.Priority = p
		return j
	}
	for range 4 {
		s.admit(of(Bulk, 200))
	}
	s.standing[Bulk] = 40
	if s.admit(of(Bulk, 1)) || s.excess(Bulk, 5) != 765 {
		t.Errorf("bulk jobs of %d tokens wait, %d have to go", s.charged[Bulk], s.excess(Bulk, 5))
	}
	for range 4 {
		if !s.admit(of(Interactive, 50)) {
			t.Fatal("an interactive job was refused")
		}
	}
	s.standing[Interactive] = 40
	if s.admit(of(Interactive, 1)) || s.excess(Interactive, 5) != 220 {
		t.Errorf("interactive jobs of %d tokens wait, %d have to go", s.charged[Interactive], s.excess(Interactive, 5))
	}
	if Bulk.share()+Interactive.share() != 1 {
		t.Error("the priorities share more or less than everything")
	}
}
