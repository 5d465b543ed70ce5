package batching

import (
	"slices"
	"testing"
)

// For jobs that are admitted, coalesced, canceled and fail in any order, batches follow the
// rules, the counts are correct, no batch has a text twice, and in the end each remaining
// job is complete and nothing is left.
func FuzzScheduler(f *testing.F) {
	f.Add([]byte{0, 10, 1, 20, 2, 3, 1, 30, 2, 2, 2})
	f.Add([]byte{0, 48, 5, 25, 2, 0, 4, 0})                                    // the failed sequence is still queued in another job
	f.Add([]byte{0, 5, 30, 20, 1, 7, 31, 3, 2, 2, 4, 0, 2, 2, 2, 2})           // some are exclusive
	f.Add([]byte{0, 5, 40, 20, 41, 20, 45, 20, 2, 2, 40, 3, 4, 0, 2, 2, 2, 2}) // some have a prompt
	f.Add([]byte("admit, batch, cancel, fail and complete in some order"))
	f.Fuzz(func(t *testing.T, program []byte) {
		s := &scheduler[owner]{budget: 64, limit: 200}
		var alive []*Job[owner]
		var inFlight []*Sequence[owner]
		end := func(j *Job[owner]) {
			s.remove(j)
			alive = slices.DeleteFunc(alive, func(other *Job[owner]) bool { return other == j })
		}
		complete := func() {
			for _, q := range inFlight {
				s.complete(q)
				for w := range q.Waiters() {
					if s.deliver(w) {
						end(w.Job)
					}
				}
			}
			inFlight = nil
		}
		for len(program) > 1 {
			op, arg := program[0], int(program[1])
			program = program[2:]
			switch op % 5 {
			case 0, 1: // a job of texts that others may also have
				j := &Job[owner]{Priority: Priority(op / 5 % 2)}
				if op/10%4 == 3 {
					j.Exclusive = true
				}
				var prompt []int32 // that others may also have
				if op/40%3 == 1 {
					prompt = make([]int32, 9)
				}
				for i := range 1 + arg%12 {
					k := (arg*7 + i) % 40
					tokens := 1 + k
					if i == 0 {
						tokens += len(prompt)
					}
					j.Add(Input{IDs: make([]int32, 1+k), Context: prompt}, tokens, Key{uint64(len(prompt)), uint64(k)}, true, i)
				}
				if s.admit(j) {
					alive = append(alive, j)
				}
			case 2:
				complete()
				inFlight = nextChecked(t, s)
				if len(inFlight) == 0 && len(alive) > 0 {
					t.Fatalf("%d jobs wait and there is no batch", len(alive))
				}
			case 3:
				if len(alive) > 0 {
					end(alive[arg%len(alive)])
				}
			case 4:
				if len(inFlight) > 0 { // fails on the first job
					if j := inFlight[0].first.Job; !j.ended {
						end(j)
					}
					for _, q := range inFlight {
						s.retry(q)
					}
					inFlight = nil
				}
			}
			consistent(t, s, inFlight)
		}
		for range 10_000 {
			complete()
			if inFlight = nextChecked(t, s); len(inFlight) == 0 {
				break
			}
			consistent(t, s, inFlight)
		}
		if len(alive) > 0 || len(s.jobs) > 0 || len(s.pending) > 0 || s.tokens != 0 || s.held() != 0 {
			t.Errorf("left behind: %d jobs, %d of them queued, %d sequences, %d tokens, a charge of %d",
				len(alive), len(s.jobs), len(s.pending), s.tokens, s.held())
		}
	})
}

// nextChecked forms the next batch and checks it: whose slot it is, that it is within
// its budget, that nothing more would have fit, and why it was closed.
func nextChecked(t *testing.T, s *scheduler[owner]) []*Sequence[owner] {
	t.Helper()
	var front [priorities]*Sequence[owner] // of the job of each priority that gets the next slot
	for _, j := range slices.Backward(s.jobs) {
		front[j.Priority] = j.sequences[0]
	}
	limits := [priorities]int{Interactive: s.budget, Bulk: s.budget}
	if front[Interactive] != nil || s.short > 0 {
		limits[Bulk] = s.shortBudget()
	}
	next := s.nextBatch()
	batch, reason := next.Sequences, next.Reason
	if want := map[bool]string{true: ReasonBudget, false: ReasonDrained}[len(s.jobs) > 0]; reason != want {
		t.Fatalf("%d jobs are queued and the reason is %s", len(s.jobs), reason)
	}
	if len(batch) == 0 {
		return nil
	}
	if !slices.Contains(front[:], batch[0]) {
		t.Fatal("a batch begins with a job that does not have the slot")
	}
	var filled counter
	for _, q := range batch {
		filled.add(q.Input)
	}
	tokens := filled.tokens
	if tokens > s.budget && len(batch) > 1 {
		t.Fatalf("%d tokens in a batch of at most %d", tokens, s.budget)
	}
	if next.Exclusive != nil {
		requireOneJob(t, batch)
		return batch
	}
	for _, j := range s.jobs {
		if j.Exclusive {
			continue
		}
		if cost := filled.cost(j.sequences[0].Input); tokens+cost <= limits[j.Priority] {
			t.Fatalf("a batch of %d tokens was closed while %d of priority %d would have fit", tokens, cost, j.Priority)
		}
	}
	return batch
}

// requireOneJob checks that one job needs all sequences of a batch.
func requireOneJob(t *testing.T, batch []*Sequence[owner]) {
	t.Helper()
	common := map[*Job[owner]]int{}
	for _, q := range batch {
		for w := range q.Waiters() {
			if w.Job.Exclusive {
				common[w.Job]++
			}
		}
	}
	for _, n := range common {
		if n >= len(batch) {
			return
		}
	}
	t.Fatal("a batch of an exclusive job holds what it does not need")
}

func consistent(t *testing.T, s *scheduler[owner], batch []*Sequence[owner]) {
	t.Helper()
	tokens := 0
	for k, q := range s.pending {
		tokens += q.tokens
		if q.Key != k {
			t.Fatal("a sequence is pending under another key")
		}
	}
	if tokens != s.tokens {
		t.Fatalf("%d tokens are pending, and counted as %d", tokens, s.tokens)
	}
	seen := map[*Sequence[owner]]bool{}
	for _, q := range batch {
		if seen[q] || !q.taken || s.pending[q.Key] != q {
			t.Fatal("a batch holds a text twice, or one that is not pending")
		}
		seen[q] = true
	}
	var charged [priorities]int
	if !slices.IsSortedFunc(s.jobs, func(a, b *Job[owner]) int { return a.admittedAt - b.admittedAt }) {
		t.Fatal("the jobs are not in the order of arrival")
	}
	for _, j := range s.jobs {
		if j.tokens <= 0 {
			t.Fatalf("a queued job counts %d tokens", j.tokens)
		}
		charged[j.Priority] += j.charge
		if len(j.sequences) == 0 || j.sequences[0].taken || j.ended {
			t.Fatal("a job is queued without a sequence, or after it left")
		}
		queued := map[*Sequence[owner]]bool{}
		for _, q := range j.sequences {
			if !q.taken && s.pending[q.Key] != q {
				t.Fatal("a queued sequence is not pending")
			}
			if queued[q] {
				t.Fatal("a sequence is queued twice in one job")
			}
			queued[q] = true
		}
	}
	for c := range charged { // jobs whose last sequences are in a batch are also charged
		if charged[c] > s.charged[c] || s.charged[c] < 0 {
			t.Fatalf("priority %d is charged %d, and its queued jobs %d", c, s.charged[c], charged[c])
		}
	}
}
