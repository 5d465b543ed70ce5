package feedback_test

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"

	"assay/rewardmodel/bag"
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
		if rng.IntN(3) == 0 {
			m.Labels.Aspects = map[string]bag.Label{}
			for _, aspect := range []string{"x", "y", "mistyped"}[:1+rng.IntN(3)] {
				m.Labels.Aspects[aspect] = labelOf(rng.IntN(2) == 0)
			}
			if rng.IntN(2) == 0 {
				m.Labels.Whole = ""
			}
		}
		if rng.IntN(4) > 0 {
			m.Sender = feedback.HashOf(strconv.Itoa(rng.IntN(3)))
		}
		if rng.IntN(6) == 0 {
			m.Labels = feedback.Labels{} // withdrawn
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

func (o oracle) bags(share float64, aspects ...string) []feedback.Bag {
	var out []feedback.Bag
	for id, raters := range o.live {
		marks := slices.SortedFunc(maps.Values(raters), func(a, b feedback.Mark) int { return cmp.Compare(b.Sequence, a.Sequence) })
		b := feedback.Bag{ID: id, Sequence: marks[0].Sequence, HeldOut: feedback.Split{Share: share}.HeldOut(id, marks[0].Group)}
		text := marks[0].Text
		marks = slices.DeleteFunc(marks, func(m feedback.Mark) bool { return m.Text != text || m.Labels.Withdrawn() })
		if b.Raters = len(marks); b.Raters > 0 {
			b.Sequence = marks[0].Sequence
		}
		o.vote(&b, marks, aspects)
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b feedback.Bag) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return out
}

// vote sets the labels of the majority of marks for a model with the given aspects; none: a single unnamed one.
func (o oracle) vote(b *feedback.Bag, marks []feedback.Mark, aspects []string) {
	if len(aspects) == 0 {
		aspects = []string{"default"}
	}
	several := len(aspects) > 1
	majority := func(votes map[bag.Label]int) bag.Label {
		switch {
		case votes[bag.Violation] > votes[bag.Compliant]:
			return bag.Violation
		case votes[bag.Violation] < votes[bag.Compliant]:
			return bag.Compliant
		}
		return ""
	}
	whole := map[bag.Label]int{}
	for _, m := range marks {
		whole[m.Labels.Whole]++
	}
	b.Labels.Whole = majority(whole)
	disputed := b.Labels.Whole == "" && whole[bag.Violation] > 0
	dropped := false
	for _, aspect := range []string{"mistyped", "x", "y"} {
		known, named, votes := slices.Contains(aspects, aspect), false, map[bag.Label]int{}
		for _, m := range marks {
			label, is := m.Labels.Aspects[aspect]
			named = named || is
			switch {
			case is:
			case known && (!several || majority(whole) == bag.Compliant && m.Labels.Whole == bag.Compliant):
				label = m.Labels.Whole
			}
			votes[label]++
		}
		if !named {
			continue
		}
		if b.Labels.Aspects == nil {
			b.Labels.Aspects = map[string]bag.Label{}
		}
		if label := majority(votes); label != "" {
			b.Labels.Aspects[aspect] = label
			continue
		}
		b.Tied = append(b.Tied, aspect)
		disputed = disputed || known
		dropped = dropped || known && (!several || majority(whole) == bag.Compliant)
	}
	if dropped {
		b.Labels.Whole = ""
	}
	judged := several && b.Labels.Whole != ""
	b.Violation = judged && b.Labels.Whole == bag.Violation
	for _, aspect := range aspects {
		if label := b.Labels.For(aspect, len(aspects)); !judged || !several {
			b.Violation = b.Violation || label == bag.Violation
		}
	}
	for _, aspect := range aspects {
		judged = judged || b.Labels.For(aspect, len(aspects)) != ""
	}
	b.Disputed, b.Unlabeled = !judged && disputed, !judged && !disputed
	if judged {
		b.Sender = decider(b.Labels, marks, aspects)
	}
}

// decider returns the sender of the label of marks, the latest first, that decided the labels of a model with the given
// aspects.
func decider(labels feedback.Labels, marks []feedback.Mark, aspects []string) (sender feedback.Hash) {
	want, _ := labels.Of(aspects)
	equal := 0
	for _, m := range slices.Backward(marks) {
		if of, _ := m.Labels.Of(aspects); of.Whole != want.Whole || !maps.Equal(of.Aspects, want.Aspects) {
			continue
		}
		sender = m.Sender
		if equal++; 2*equal > len(marks) {
			break
		}
	}
	return sender
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

		var aspects []string
		if rng.IntN(2) == 0 {
			aspects = []string{"x", "y"}[:1+rng.IntN(2)]
		}
		bags := want.bags(share, aspects...)
		unlabeled := 0
		for _, b := range bags {
			if b.Unlabeled {
				unlabeled++
			}
		}
		for name, index := range map[string]*feedback.Index{"in order": x, "shuffled": shuffled} {
			if got := slices.Collect(index.Bags(feedback.Split{Share: share}, aspects...)); !reflect.DeepEqual(got, bags) {
				t.Fatalf("%s: got  %+v\nwant %+v\nof %+v", name, got, bags, again)
			}
			records := 0
			for _, raters := range want.live {
				for _, m := range raters {
					if !m.Labels.Withdrawn() {
						records++
					}
				}
			}
			s := index.Stats(feedback.Split{Share: share}, 0, aspects...)
			if s.Records != records || s.Bags+s.HeldOut+s.Disputed+unlabeled != len(bags) || index.Last() != uint64(len(steps)) {
				t.Fatalf("%s: got %+v and last %d, want %d records, %d bags, %d steps", name, s, index.Last(), records, len(bags), len(steps))
			}
		}
		since := uint64(rng.IntN(len(steps)))
		if a, b := x.Stats(feedback.Split{Share: share}, since, aspects...), shuffled.Stats(feedback.Split{Share: share}, since, aspects...); !reflect.DeepEqual(a, b) {
			t.Fatalf("stats differ: %+v and %+v", a, b)
		}
		for _, s := range append(stream(rng), steps...) {
			v, replaces := x.Check(s.Mark)
			v2, replaces2 := shuffled.Check(s.Mark)
			own := want.live[s.ID][s.Rater]
			if v != v2 || replaces != replaces2 || replaces != own.Sequence || (v == feedback.Erased) != want.erased[s.ID] {
				t.Fatalf("checked: %v and %d, shuffled %v and %d; the rater's record is %d", v, replaces, v2, replaces2, own.Sequence)
			}
		}
	}
}

// Counts that were cached are right while Changes is the same, in whatever order the
// stream is applied, and applying it again changes nothing.
func TestStatsDependOnChanges(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 4))
	for range 500 {
		steps := stream(rng)
		rng.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		x := feedback.NewIndex()
		cached, changes := x.Stats(feedback.Split{}, 0), x.Changes()
		for _, s := range steps {
			s.apply(x)
			now := x.Stats(feedback.Split{}, 0)
			if x.Changes() == changes && !reflect.DeepEqual(now, cached) {
				t.Fatalf("got %+v, cached %+v, after %+v of %+v", now, cached, s, steps)
			}
			cached, changes = now, x.Changes()
		}
		for _, s := range steps {
			s.apply(x)
		}
		if x.Changes() != changes {
			t.Fatalf("%d changes after the same stream again, before %d", x.Changes(), changes)
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
			v, replaces := x.Check(m)
			if v != feedback.Accept {
				continue
			}
			m.Sequence = sequence
			if x.Apply(m); replaces >= sequence {
				t.Fatalf("sequence %d replaces %d", sequence, replaces)
			}
			if v, own := x.Check(m); v != feedback.Duplicate || own != sequence {
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
				x.Check(steps[len(steps)-1-i].Mark)
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
	if got, want := slices.Collect(x.Bags(feedback.Split{Share: 0.2})), newOracle(steps).bags(0.2); !reflect.DeepEqual(got, want) {
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
