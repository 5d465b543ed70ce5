package rewardmodel

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
)

var keys atomic.Uint64 // no two instances of these jobs have the same text

// computed gives the waiters of a batch their margins, and tells how many jobs
// that completes.
func computed(b *backlog, batch []*sequence, margin float32) (complete int) {
	for _, q := range batch {
		b.settle(q)
		for w := range q.waiters() {
			if b.finish(q, w, margin) {
				b.remove(w.job)
				complete++
			}
		}
	}
	return complete
}

// jobOf returns an interactive job with sequences of the given lengths.
func jobOf(lengths ...int) *job {
	j := newJob(interactive)
	for i, n := range lengths {
		j.margins = append(j.margins, 0)
		j.add(make([]int32, n), key{lo: keys.Add(1)}, true, i)
	}
	return j
}

func tokensOf(batch []*sequence) (sum int) {
	for _, q := range batch {
		sum += len(q.ids)
	}
	return sum
}

func lengths(batch []*sequence) []int {
	out := make([]int, len(batch))
	for i, q := range batch {
		out[i] = len(q.ids)
	}
	return out
}

// Batches are cut by their tokens, in turns, each job in its order, and none is
// closed while anything that waits would fit.
func TestBacklogCutsByTokens(t *testing.T) {
	tests := []struct {
		name   string
		jobs   [][]int
		budget int
		want   []string // batch and reason
	}{
		{"one", [][]int{{5}}, 100, []string{"[5] drained"}},
		{"in its order", [][]int{{5, 7, 6}}, 100, []string{"[5 7 6] drained"}},
		{"budget counts the tokens", [][]int{{10, 2, 8, 7, 3}}, 27, []string{"[10 2 8 7] budget", "[3] drained"}},
		{"budget is met exactly", [][]int{{10, 9, 11}}, 30, []string{"[10 9 11] drained"}},
		{"one more than the budget", [][]int{{10, 9, 12}}, 30, []string{"[10 9] budget", "[12] drained"}},
		{"longer than the budget", [][]int{{50, 3}}, 30, []string{"[50] budget", "[3] drained"}},
		{"longer than the budget, last", [][]int{{3, 50}}, 30, []string{"[3] budget", "[50] drained"}},
		{"of any lengths", [][]int{{100, 98, 2, 1}}, 201, []string{"[100 98 2 1] drained"}},
		{"across jobs", [][]int{{8}, {6, 7}, {9}}, 100, []string{"[8 6 9 7] drained"}},
		{"in turns", [][]int{{9, 9, 9, 9}, {7, 8}}, 36, []string{"[9 7 9 8] budget", "[9 9] drained"}},
		{"one turn after the other", [][]int{{9, 9, 9, 9}, {7, 7, 7, 7}}, 18, []string{"[9 7] budget", "[7 9] budget", "[9 7] budget", "[7 9] drained"}},
		{"others fill what is too little for one", [][]int{{20, 20}, {5, 5, 5}}, 36, []string{"[20 5 5 5] budget", "[20] drained"}},
		{"the next job's turn is longer", [][]int{{6, 6}, {20}}, 24, []string{"[6 6] budget", "[20] drained"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := backlog{budget: test.budget, limit: 1 << 20}
			for _, lengths := range test.jobs {
				if !b.admit(jobOf(lengths...)) {
					t.Fatal("not admitted")
				}
			}
			var got []string
			for {
				batch, reason := b.next()
				if len(batch) == 0 {
					break
				}
				got = append(got, fmt.Sprint(lengths(batch), " ", reason))
				computed(&b, batch, 0)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if b.tokens != 0 || b.held() != 0 {
				t.Errorf("%d tokens and a charge of %d are left", b.tokens, b.held())
			}
		})
	}
}

// A small job that comes after a huge one is in the next batch or the one
// after it, whatever its lengths.
func TestBacklogIsFair(t *testing.T) {
	for _, small := range []int{2, 10, 60} {
		b := backlog{budget: 256, limit: 1 << 20}
		b.admit(jobOf(slices.Repeat([]int{10}, 10_000)...))
		b.next()
		late := jobOf(small, small)
		b.admit(late)
		b.next()
		b.next()
		if len(late.sequences) > 0 {
			t.Errorf("sequences of %d tokens still wait after two batches", small)
		}
	}
}

// With many jobs, each has its turn within as many batches.
func TestBacklogGivesEachJobItsTurn(t *testing.T) {
	b := backlog{budget: 64, limit: 1 << 20}
	var jobs []*job
	for i := range 20 {
		j := jobOf(slices.Repeat([]int{2 + 3*i}, 50)...)
		jobs = append(jobs, j)
		b.admit(j)
	}
	for range jobs {
		b.next()
	}
	for i, j := range jobs {
		if len(j.sequences) == 50 {
			t.Errorf("job %d has not been in any of %d batches", i, len(jobs))
		}
	}
}

func TestBacklogAdmission(t *testing.T) {
	b := backlog{budget: 100, limit: 100}
	huge := jobOf(slices.Repeat([]int{10}, 1000)...)
	if !b.admit(huge) {
		t.Fatal("a job larger than the queue is kept out of an idle one")
	}
	if huge.charge != 25 {
		t.Errorf("it counts %d tokens, want a quarter of the limit", huge.charge)
	}
	for i := range 3 {
		if !b.admit(jobOf(25)) {
			t.Fatalf("job %d does not fit beside a huge one", i)
		}
	}
	if !b.full(interactive) || b.admit(jobOf(1)) {
		t.Error("a full queue admits")
	}
	b.remove(huge)
	if b.full(interactive) || b.tokens != 75 || b.held() != 75 {
		t.Errorf("after it left: %d tokens, charge %d", b.tokens, b.held())
	}
	if !b.admit(jobOf(slices.Repeat([]int{10}, 1000)...)) {
		t.Error("a huge job is kept out of a queue with a quarter free")
	}
}

// A job's charge falls only when less of it is left than its share.
func TestBacklogChargeFollowsTheRest(t *testing.T) {
	b := backlog{budget: 10, limit: 80}
	j := jobOf(slices.Repeat([]int{10}, 4)...)
	b.admit(j)
	for _, want := range []int{20, 20, 10, 0} {
		batch, _ := b.next()
		computed(&b, batch, 1)
		if b.held() != want {
			t.Errorf("charge %d, want %d", b.held(), want)
		}
	}
	if j.unread != 0 {
		t.Errorf("%d sequences left", j.unread)
	}
}

// What a job that left had in a batch comes back without effect.
func TestBacklogForgetsWhoLeft(t *testing.T) {
	b := backlog{budget: 20, limit: 100}
	j := jobOf(10, 10, 10)
	b.admit(j)
	batch, _ := b.next()
	b.remove(j)
	b.remove(j)
	if computed(&b, batch, 1) > 0 {
		t.Error("a job that left was completed")
	}
	if rest, _ := b.next(); len(rest) != 0 || b.tokens != 0 || b.held() != 0 {
		t.Errorf("left behind: %v, %d tokens, charge %d", lengths(rest), b.tokens, b.held())
	}
}

func BenchmarkBacklogNext(b *testing.B) {
	q := backlog{budget: 8192, limit: 1 << 40}
	for b.Loop() {
		if len(q.jobs) < 100 {
			for range 1000 {
				q.admit(jobOf(30, 20, 12, 40, 25))
			}
		}
		batch, _ := q.next()
		computed(&q, batch, 0)
	}
}
