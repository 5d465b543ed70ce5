package batching

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
)

var keys atomic.Uint64 // all instances of these jobs have different texts

// owner is what the jobs of tests are part of.
type owner struct{}

// computed completes the sequences of a batch, and returns the number of jobs that
// this completes.
func computed(s *scheduler[owner], batch []*Sequence[owner]) (complete int) {
	for _, q := range batch {
		s.complete(q)
		for w := range q.Waiters() {
			if s.deliver(w) {
				s.remove(w.Job)
				complete++
			}
		}
	}
	return complete
}

// next is nextBatch for tests that compare sequences and reason.
func (s *scheduler[O]) next() (batch []*Sequence[O], reason string) {
	b := s.nextBatch()
	return b.Sequences, b.Reason
}

// admit queues j if it fits.
func (s *scheduler[owner]) admit(j *Job[owner]) bool {
	fits := s.fits(j.Priority, s.charge(j.Priority, j.tokens), [priorities]int{})
	if fits {
		s.enqueue(j)
	}
	return fits
}

// full reports whether no job of priority p fits.
func (s *scheduler[owner]) full(p Priority) bool { return !s.fits(p, 1, [priorities]int{}) }

// jobOf returns an interactive job with sequences of the given lengths.
func jobOf(lengths ...int) *Job[owner] {
	j := &Job[owner]{Priority: Interactive}
	for i, n := range lengths {
		j.Add(Input{IDs: make([]int32, n)}, n, Key{Lo: keys.Add(1)}, true, i)
	}
	return j
}

func tokensOf(batch []*Sequence[owner]) (sum int) {
	for _, q := range batch {
		sum += len(q.IDs)
	}
	return sum
}

func lengths(batch []*Sequence[owner]) []int {
	out := make([]int, len(batch))
	for i, q := range batch {
		out[i] = len(q.IDs)
	}
	return out
}

// Batches are formed by response ratio up to a number of tokens, in the order of each job,
// and none is closed while any queued sequence would fit.
func TestSchedulerBatchesByTokens(t *testing.T) {
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
		{"the smallest first", [][]int{{8}, {6, 7}, {9}}, 100, []string{"[8 9 6 7] drained"}},
		{"the oldest begins, then the smallest", [][]int{{9, 9, 9, 9}, {7, 8}}, 36, []string{"[9 7 8 9] budget", "[9 9] drained"}},
		{"an eighth for the oldest", [][]int{{2, 2, 2, 2, 2, 9}, {7, 8}}, 32, []string{"[2 2 7 8 2 2 2] budget", "[9] drained"}},
		{"an eighth in the order of arrival", [][]int{{3}, {9, 9}, {1, 9, 9}, {7, 8}}, 32, []string{"[3 1 7 8 9] budget", "[9 9 9] drained"}},
		{"others fill what is too little for one", [][]int{{20, 20}, {5, 5, 5}}, 36, []string{"[20 5 5 5] budget", "[20] drained"}},
		{"the next job has a longer sequence", [][]int{{6, 6}, {20}}, 24, []string{"[6 6] budget", "[20] drained"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := scheduler[owner]{budget: test.budget, limit: 1 << 20}
			for _, lengths := range test.jobs {
				if !s.admit(jobOf(lengths...)) {
					t.Fatal("not admitted")
				}
			}
			var got []string
			for {
				batch, reason := s.next()
				if len(batch) == 0 {
					break
				}
				got = append(got, fmt.Sprint(lengths(batch), " ", reason))
				computed(&s, batch)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if s.tokens != 0 || s.held() != 0 {
				t.Errorf("%d tokens and a charge of %d are left", s.tokens, s.held())
			}
		})
	}
}

// A small job after a huge one is in the next batch or the one after it, whatever the
// lengths of its sequences.
func TestSchedulerIsFair(t *testing.T) {
	for _, small := range []int{2, 10, 60} {
		s := scheduler[owner]{budget: 256, limit: 1 << 20}
		s.admit(jobOf(slices.Repeat([]int{10}, 10_000)...))
		s.nextBatch()
		late := jobOf(small, small)
		s.admit(late)
		s.nextBatch()
		s.nextBatch()
		if len(late.sequences) > 0 {
			t.Errorf("sequences of %d tokens still wait after two batches", small)
		}
	}
}

// A job overtakes one that is larger by more than it waited longer.
func TestSchedulerServesByResponseRatio(t *testing.T) {
	type waiting struct{ size, computed int } // and the tokens that were computed since it came
	for _, test := range []struct {
		name string
		jobs []waiting
		want []int // sizes
	}{
		{"the oldest of equal ones", []waiting{{20, 200}, {20, 100}, {20, 0}}, []int{20, 20, 20}},
		{"the smallest of new ones", []waiting{{30, 0}, {10, 0}, {20, 0}}, []int{10, 20, 30}},
		{"a small one that has just come", []waiting{{20, 0}, {40, 199}}, []int{20, 40}},
		{"one that has waited", []waiting{{20, 0}, {40, 201}}, []int{40, 20}},
		{"in proportion to their size", []waiting{{900, 8000}, {10, 10}, {100, 2100}}, []int{100, 10, 900}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := scheduler[owner]{budget: 100, limit: 1 << 20, computed: 10_000}
			for _, w := range test.jobs {
				j := jobOf(w.size)
				s.admit(j)
				j.admittedAt -= w.computed
			}
			var got []int
			for _, j := range s.byResponseRatio(s.jobs) {
				got = append(got, j.size)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// Whatever comes after a job, it is done as soon as two slots of its priority for each
// eighth of a batch of what was queued when it came, and of its own, have been computed.
func TestSchedulerStarvesNoJob(t *testing.T) {
	const budget = 256
	for _, kind := range []struct {
		name string
		late func(*rand.Rand) []int // lengths of a job that competes
	}{
		{"tiny", func(*rand.Rand) []int { return []int{3} }},
		{"small", func(r *rand.Rand) []int { return []int{3 + r.IntN(30)} }},
		{"of long sequences", func(r *rand.Rand) []int { return []int{budget/oldestDivisor + 1 + r.IntN(budget)} }},
		{"of any size", func(r *rand.Rand) []int { return anyLengths(r, 1+r.IntN(40)) }},
	} {
		for _, p := range []Priority{Interactive, Bulk} {
			t.Run(fmt.Sprint(kind.name, p), func(t *testing.T) {
				r := rand.New(rand.NewPCG(1, uint64(p)))
				s := scheduler[owner]{budget: budget, limit: 1 << 20}
				add := func(lengths []int) *Job[owner] {
					j := jobOf(lengths...)
					j.Priority = p
					s.enqueue(j)
					return j
				}
				for range 20 {
					add(anyLengths(r, 1+r.IntN(40)))
				}
				huge := add(anyLengths(r, 400))
				batches := 0
				for limit := 2 * (s.tokens*oldestDivisor/budget + 1); huge.remaining > 0; batches++ {
					if batches > limit {
						t.Fatalf("%d of %d tokens wait after %d batches", huge.tokens, huge.size, batches)
					}
					for s.tokens-huge.tokens < 10*budget {
						add(kind.late(r))
					}
					batch, _ := s.next()
					computed(&s, batch)
				}
				t.Logf("%d batches", batches)
			})
		}
	}
}

func anyLengths(r *rand.Rand, n int) []int {
	lengths := make([]int, n)
	for i := range lengths {
		lengths[i] = 2 + int(r.ExpFloat64()*25)%200
	}
	return lengths
}

func TestSchedulerAdmission(t *testing.T) {
	s := scheduler[owner]{budget: 100, limit: 100}
	huge := jobOf(slices.Repeat([]int{10}, 1000)...)
	if !s.admit(huge) {
		t.Fatal("a job larger than the queue is kept out of an idle one")
	}
	if huge.charge != 25 {
		t.Errorf("it counts %d tokens, want a quarter of the limit", huge.charge)
	}
	for i := range 3 {
		if !s.admit(jobOf(25)) {
			t.Fatalf("job %d does not fit alongside a huge one", i)
		}
	}
	if !s.full(Interactive) || s.admit(jobOf(1)) {
		t.Error("a full queue admits")
	}
	s.remove(huge)
	if s.full(Interactive) || s.tokens != 75 || s.held() != 75 {
		t.Errorf("after it was removed: %d tokens, charge %d", s.tokens, s.held())
	}
	if !s.admit(jobOf(slices.Repeat([]int{10}, 1000)...)) {
		t.Error("a huge job is kept out of a queue with a quarter free")
	}
}

// The charge of a job decreases only when its remaining tokens are fewer than its share.
func TestSchedulerChargeOfRemainingTokens(t *testing.T) {
	s := scheduler[owner]{budget: 10, limit: 80}
	j := jobOf(slices.Repeat([]int{10}, 4)...)
	s.admit(j)
	for _, want := range []int{20, 20, 10, 0} {
		batch, _ := s.next()
		computed(&s, batch)
		if s.held() != want {
			t.Errorf("charge %d, want %d", s.held(), want)
		}
	}
	if j.remaining != 0 {
		t.Errorf("%d sequences left", j.remaining)
	}
}

// The margins of a canceled job that was in a batch have no effect.
func TestSchedulerForgetsCanceledJobs(t *testing.T) {
	s := scheduler[owner]{budget: 20, limit: 100}
	j := jobOf(10, 10, 10)
	s.admit(j)
	batch, _ := s.next()
	s.remove(j)
	s.remove(j)
	if computed(&s, batch) > 0 {
		t.Error("a canceled job was completed")
	}
	if rest, _ := s.next(); len(rest) != 0 || s.tokens != 0 || s.held() != 0 {
		t.Errorf("left behind: %v, %d tokens, charge %d", lengths(rest), s.tokens, s.held())
	}
}

func BenchmarkSchedulerNext(b *testing.B) {
	q := scheduler[owner]{budget: 8192, limit: 1 << 40}
	for b.Loop() {
		if len(q.jobs) < 100 {
			for range 1000 {
				q.admit(jobOf(30, 20, 12, 40, 25))
			}
		}
		batch, _ := q.next()
		computed(&q, batch)
	}
}

// A job counts the tokens that it queued, also of sequences that it shares with jobs for
// which they are the first with their context.
func TestSharedSequencesCountAsQueued(t *testing.T) {
	s := &scheduler[owner]{budget: 1000, limit: 1000}
	add := func(j *Job[owner], text, tokens int) {
		j.Add(Input{IDs: make([]int32, 10)}, tokens, Key{Lo: uint64(text)}, true, 0)
	}
	for text := range 4 {
		j := &Job[owner]{Priority: Interactive}
		add(j, text, 100)
		s.admit(j)
	}
	shared := &Job[owner]{Priority: Interactive}
	for text := range 5 {
		add(shared, text, map[bool]int{true: 100, false: 10}[text == 0])
	}
	s.admit(shared)
	for text := range 4 {
		q := s.pending[Key{Lo: uint64(text)}]
		q.taken = true
		computed(s, []*Sequence[owner]{q})
	}
	if shared.tokens != 10 || s.held() != 10 {
		t.Errorf("a job that waits for 10 tokens counts %d, and %d are held", shared.tokens, s.held())
	}
}
