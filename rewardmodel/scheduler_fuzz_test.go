package rewardmodel

import (
	"slices"
	"testing"
)

// Whatever jobs come, share, leave and fail, in whatever order: batches keep to
// the rules, the counts are right, no batch holds a text twice, and in the end
// each job that stayed has all its margins and nothing is left.
func FuzzBacklog(f *testing.F) {
	f.Add([]byte{0, 10, 1, 20, 2, 3, 1, 30, 2, 2, 2})
	f.Add([]byte{0, 48, 5, 25, 2, 0, 4, 0})                          // what fails still stands in the line of another
	f.Add([]byte{0, 5, 30, 20, 1, 7, 31, 3, 2, 2, 4, 0, 2, 2, 2, 2}) // some must be alone
	f.Add([]byte("admit, cut, leave, fail and settle in some order"))
	f.Fuzz(func(t *testing.T, program []byte) {
		b := &backlog{budget: 64, limit: 200}
		var alive []*job
		var inFlight []*sequence
		end := func(j *job) {
			b.remove(j)
			alive = slices.DeleteFunc(alive, func(other *job) bool { return other == j })
		}
		settle := func(margin float32) {
			for _, q := range inFlight {
				b.settle(q)
				for w := range q.waiters() {
					if b.finish(q, w, margin) {
						end(w.job)
					}
				}
			}
			inFlight = nil
		}
		for len(program) > 1 {
			op, arg := program[0], int(program[1])
			program = program[2:]
			switch op % 5 {
			case 0, 1: // a job of texts that others may hold, too
				j := newJob(class(op / 5 % 2))
				if op/10%4 == 3 {
					j.alone = func(bool) {}
				}
				for i := range 1 + arg%12 {
					k := (arg*7 + i) % 40
					j.margins = append(j.margins, 0)
					j.add(make([]int32, 1+k), key{lo: uint64(k)}, true, i)
				}
				if b.admit(j) {
					alive = append(alive, j)
				}
			case 2:
				settle(1)
				inFlight = cutOne(t, b)
				if len(inFlight) == 0 && len(alive) > 0 {
					t.Fatalf("%d jobs wait and there is no batch", len(alive))
				}
			case 3:
				if len(alive) > 0 {
					end(alive[arg%len(alive)])
				}
			case 4:
				if len(inFlight) > 0 { // fails on the first job
					if j := inFlight[0].first.job; !j.left {
						end(j)
					}
					for _, q := range inFlight {
						b.retry(q)
					}
					inFlight = nil
				}
			}
			consistent(t, b, inFlight)
		}
		for range 10_000 {
			settle(1)
			if inFlight = cutOne(t, b); len(inFlight) == 0 {
				break
			}
			consistent(t, b, inFlight)
		}
		if len(alive) > 0 || len(b.jobs) > 0 || len(b.pending) > 0 || b.tokens != 0 || b.held() != 0 {
			t.Errorf("left behind: %d jobs, %d of them in line, %d sequences, %d tokens, a charge of %d",
				len(alive), len(b.jobs), len(b.pending), b.tokens, b.held())
		}
	})
}

// cutOne has the next batch cut and checks it: who began it, that it keeps to
// its budget, that nothing more would have fitted, and why it was closed.
func cutOne(t *testing.T, b *backlog) []*sequence {
	t.Helper()
	var front [classes]*sequence // of the job of each class whose turn is next
	for _, j := range slices.Backward(b.jobs) {
		front[j.class] = j.sequences[0]
	}
	batch, reason := b.next()
	if want := map[bool]string{true: reasonBudget, false: reasonDrained}[len(b.jobs) > 0]; reason != want {
		t.Fatalf("%d jobs are left in line and the reason is %s", len(b.jobs), reason)
	}
	if len(batch) == 0 {
		return nil
	}
	if !slices.Contains(front[:], batch[0]) {
		t.Fatal("a batch begins with a job whose turn it is not")
	}
	limits := [classes]int{interactive: b.budget, bulk: b.budget}
	if front[interactive] != nil {
		limits[bulk] /= 4
	}
	tokens := tokensOf(batch)
	if tokens > b.budget && len(batch) > 1 {
		t.Fatalf("%d tokens in a batch of at most %d", tokens, b.budget)
	}
	if b.alone != nil {
		requireOneJob(t, batch)
		return batch
	}
	for _, j := range b.jobs {
		if j.alone != nil {
			continue
		}
		if next := len(j.sequences[0].ids); tokens+next <= limits[j.class] {
			t.Fatalf("a batch of %d tokens was closed while %d of class %d would have fitted", tokens, next, j.class)
		}
	}
	return batch
}

// requireOneJob checks that one job needs all that is in a batch.
func requireOneJob(t *testing.T, batch []*sequence) {
	t.Helper()
	common := map[*job]int{}
	for _, q := range batch {
		for w := range q.waiters() {
			if w.job.alone != nil {
				common[w.job]++
			}
		}
	}
	for _, n := range common {
		if n >= len(batch) {
			return
		}
	}
	t.Fatal("a batch of a job that must be alone holds what it does not need")
}

func consistent(t *testing.T, b *backlog, batch []*sequence) {
	t.Helper()
	tokens := 0
	for k, q := range b.pending {
		tokens += len(q.ids)
		if q.key != k {
			t.Fatal("a sequence is pending under another key")
		}
	}
	if tokens != b.tokens {
		t.Fatalf("%d tokens are pending, and counted as %d", tokens, b.tokens)
	}
	seen := map[*sequence]bool{}
	for _, q := range batch {
		if seen[q] || !q.taken || b.pending[q.key] != q {
			t.Fatal("a batch holds a text twice, or one that is not pending")
		}
		seen[q] = true
	}
	var charged [classes]int
	for _, j := range b.jobs {
		charged[j.class] += j.charge
		if len(j.sequences) == 0 || j.sequences[0].taken || j.left {
			t.Fatal("a job is in line without a sequence, or after it left")
		}
		inLine := map[*sequence]bool{}
		for _, q := range j.sequences {
			if !q.taken && b.pending[q.key] != q {
				t.Fatal("a sequence in line is not pending")
			}
			if inLine[q] {
				t.Fatal("a sequence stands in one line twice")
			}
			inLine[q] = true
		}
	}
	for c := range charged { // those whose last sequences are in a batch are charged, too
		if charged[c] > b.charged[c] || b.charged[c] < 0 {
			t.Fatalf("class %d is charged %d, and its jobs in line %d", c, b.charged[c], charged[c])
		}
	}
}
