package feedback_test

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"

	"assay/rewardmodel/feedback"
)

// step is a record or a tombstone of a stream.
type step struct {
	feedback.Mark
	erase bool
}

func (s step) apply(x *feedback.Index) {
	if s.erase {
		x.Erase(s.ID, s.Sequence)
	} else {
		x.Apply(s.Mark)
	}
}

// stream returns a random stream with few ids and raters, so that they repeat, and
// with texts that conflict as after a race.
func stream(rng *rand.Rand) []step {
	steps := make([]step, 1+rng.IntN(60))
	for i := range steps {
		m := mark(strconv.Itoa(rng.IntN(6)), strconv.Itoa(rng.IntN(5)), rng.IntN(2) == 0, rng.IntN(4), uint64(i+1))
		if rng.IntN(8) == 0 {
			m = other(m)
		}
		if rng.IntN(2) == 0 {
			m.Group = feedback.HashOf(strconv.Itoa(rng.IntN(3)))
		}
		steps[i] = step{m, rng.IntN(25) == 0}
	}
	return steps
}

// oracle is the simplest implementation of the index, for a whole stream.
type oracle struct {
	live   map[feedback.Hash]map[feedback.Hash]feedback.Mark // by id and rater
	erased map[feedback.Hash]bool
}

func newOracle(steps []step) oracle {
	o := oracle{map[feedback.Hash]map[feedback.Hash]feedback.Mark{}, map[feedback.Hash]bool{}}
	for _, s := range steps {
		if s.erase {
			o.erased[s.ID] = true
		}
	}
	for _, s := range steps {
		if s.erase || o.erased[s.ID] {
			continue
		}
		if o.live[s.ID] == nil {
			o.live[s.ID] = map[feedback.Hash]feedback.Mark{}
		}
		o.live[s.ID][s.Rater] = s.Mark // steps are in the order of the stream
	}
	return o
}

func (o oracle) bags(share float64) []feedback.Bag {
	var out []feedback.Bag
	for id, raters := range o.live {
		marks := slices.SortedFunc(maps.Values(raters), func(a, b feedback.Mark) int { return cmp.Compare(b.Sequence, a.Sequence) })
		b := feedback.Bag{ID: id, Sequence: marks[0].Sequence, HeldOut: feedback.Split{Share: share}.HeldOut(id, marks[0].Group)}
		votes := map[bool]int{}
		for _, m := range marks {
			if m.Text == marks[0].Text {
				votes[m.Violation]++
				b.Raters++
			}
		}
		b.Violation, b.Disputed = votes[true] > votes[false], votes[true] == votes[false]
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b feedback.Bag) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return out
}

// The index does not depend on the order of a stream or on repetitions: majority
// labels, verdicts and counts are the same.
func TestFoldDoesNotDependOnOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	for range 2000 {
		steps := stream(rng)
		want := newOracle(steps)
		share := rng.Float64()

		x, shuffled := feedback.NewIndex(), feedback.NewIndex()
		for _, s := range steps {
			s.apply(x)
		}
		again := append(slices.Clone(steps), steps[:rng.IntN(len(steps))]...)
		rng.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
		for _, s := range again {
			s.apply(shuffled)
		}

		bags := want.bags(share)
		for name, index := range map[string]*feedback.Index{"in order": x, "shuffled": shuffled} {
			if got := slices.Collect(index.Bags(feedback.Split{Share: share})); !slices.Equal(got, bags) {
				t.Fatalf("%s: got  %+v\nwant %+v\nof %+v", name, got, bags, again)
			}
			records := 0
			for _, raters := range want.live {
				records += len(raters)
			}
			s := index.Stats(feedback.Split{Share: share}, 0)
			if s.Records != records || s.Bags+s.HeldOut+s.Disputed != len(bags) || index.Last() != uint64(len(steps)) {
				t.Fatalf("%s: got %+v and last %d, want %d records, %d bags, %d steps", name, s, index.Last(), records, len(bags), len(steps))
			}
		}
		since := uint64(rng.IntN(len(steps)))
		if a, b := x.Stats(feedback.Split{Share: share}, since), shuffled.Stats(feedback.Split{Share: share}, since); a != b {
			t.Fatalf("stats differ: %+v and %+v", a, b)
		}
		for _, s := range append(stream(rng), steps...) {
			v, replaces := x.Judge(s.Mark)
			v2, replaces2 := shuffled.Judge(s.Mark)
			own := want.live[s.ID][s.Rater]
			if v != v2 || replaces != replaces2 || replaces != own.Sequence || (v == feedback.Erased) != want.erased[s.ID] {
				t.Fatalf("judged %v and %d, shuffled %v and %d; the rater's record is %d", v, replaces, v2, replaces2, own.Sequence)
			}
		}
	}
}

// An item that was stored is a duplicate when it is sent again, however batches
// overlap.
func TestReplaysAreDuplicates(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 2))
	for range 500 {
		x := feedback.NewIndex()
		for sequence := uint64(1); sequence < 40; sequence++ {
			m := mark(strconv.Itoa(rng.IntN(5)), strconv.Itoa(rng.IntN(3)), rng.IntN(2) == 0, rng.IntN(6), 0)
			v, replaces := x.Judge(m)
			if v != feedback.Accept {
				continue
			}
			m.Sequence = sequence
			if x.Apply(m); replaces >= sequence {
				t.Fatalf("sequence %d replaces %d", sequence, replaces)
			}
			if v, own := x.Judge(m); v != feedback.Duplicate || own != sequence {
				t.Fatalf("again: %v, replaces %d, want a duplicate of %d", v, own, sequence)
			}
		}
	}
}

func TestIndexIsSafeForConcurrentUse(t *testing.T) {
	x := feedback.NewIndex()
	rng := rand.New(rand.NewPCG(5, 3))
	var steps []step
	for range 20 {
		for _, s := range stream(rng) {
			s.Sequence = uint64(len(steps) + 1)
			steps = append(steps, s)
		}
	}
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := worker; i < len(steps); i += 4 {
				steps[i].apply(x)
				x.Judge(steps[len(steps)-1-i].Mark)
				if i%50 == worker {
					x.Stats(feedback.Split{Share: 0.2}, 3)
					for b := range x.Bags(feedback.Split{Share: 0.2}) {
						x.Erased(b.ID) // the index is free while bags are yielded
						break
					}
				}
			}
		})
	}
	wg.Wait()
	if got, want := slices.Collect(x.Bags(feedback.Split{Share: 0.2})), newOracle(steps).bags(0.2); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestVerdictNames(t *testing.T) {
	for v, want := range map[feedback.Verdict]string{
		feedback.Accept: "accept", feedback.Duplicate: "duplicate", feedback.Conflict: "conflict", feedback.Erased: "erased", 9: "unknown",
	} {
		if got := v.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
