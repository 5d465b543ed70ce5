package feedback_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

// sent returns the mark of a label that a token sent.
func sent(token string, m feedback.Mark) feedback.Mark {
	m.Sender = feedback.HashOf(token)
	return m
}

// bagsOf returns n bags of each sender with a label, in turns.
func bagsOf(violation bool, bySender map[string]int) (out []feedback.Bag) {
	for i := range 100 {
		for name, n := range bySender {
			if i < n {
				out = append(out, feedback.Bag{ID: feedback.HashOf(fmt.Sprint(name, i, violation)), Violation: violation,
					Labels: feedback.Labels{Whole: labelOf(violation)}, Sender: feedback.HashOf(name)})
			}
		}
	}
	return out
}

func countOf(bags []feedback.Bag, sender string) (n int) {
	for _, b := range bags {
		if b.Sender == feedback.HashOf(sender) {
			n++
		}
	}
	return n
}

func TestLimitSenders(t *testing.T) {
	const all = 1 << 20
	for _, c := range []struct {
		name  string
		bags  map[string]int
		share float64
		most  int
		want  map[string]int
	}{
		{"off", map[string]int{"a": 90, "b": 10}, 1, all, map[string]int{"a": 90, "b": 10}},
		{"a flood", map[string]int{"a": 90, "b": 10}, 0.5, all, map[string]int{"a": 10, "b": 10}},
		{"within", map[string]int{"a": 30, "b": 40, "c": 30}, 0.4, all, map[string]int{"a": 30, "b": 40, "c": 30}},
		{"one of three", map[string]int{"a": 70, "b": 30, "c": 10}, 0.5, all, map[string]int{"a": 40, "b": 30, "c": 10}},
		{"two of three", map[string]int{"a": 70, "b": 60, "c": 10}, 0.4, all, map[string]int{"a": 20, "b": 20, "c": 10}},
		{"thirds", map[string]int{"a": 70, "b": 7, "c": 9}, 1.0 / 3, all, map[string]int{"a": 7, "b": 7, "c": 7}},
		{"rounded down", map[string]int{"a": 9, "b": 2, "c": 3}, 0.6, all, map[string]int{"a": 7, "b": 2, "c": 3}},
		{"too few senders", map[string]int{"a": 90, "b": 90}, 0.4, all, nil},
		{"one sender", map[string]int{"a": 90}, 0.99, all, nil},
		{"none", nil, 0.5, all, nil},
		{"a maximum", map[string]int{"a": 90, "b": 80, "c": 10}, 0.5, 50, map[string]int{"a": 20, "b": 20, "c": 10}},
		{"a maximum below the senders", map[string]int{"a": 90, "b": 80, "c": 10}, 0.5, 2, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			bags := bagsOf(true, c.bags)
			before := slices.Clone(bags)
			kept := feedback.LimitSenders(bags, c.share, c.most)
			want := 0
			for name, n := range c.want {
				if got := countOf(kept, name); got != n {
					t.Errorf("%d bags of %s, want %d", got, name, n)
				}
				want += n
			}
			if len(kept) != want {
				t.Errorf("%d bags, want %d", len(kept), want)
			}
			if !reflect.DeepEqual(bags, before) {
				t.Error("the bags have changed")
			}
			for name := range c.bags { // the first ones of each
				n := 0
				for _, b := range bags {
					if b.Sender != feedback.HashOf(name) {
						continue
					}
					if kept := slices.ContainsFunc(kept, func(k feedback.Bag) bool { return k.ID == b.ID }); kept != (n < c.want[name]) {
						t.Errorf("bag %d of %s is kept: %v", n, name, kept)
					}
					n++
				}
			}
		})
	}
}

// No sender exceeds the share of a label, also of an aspect, and nothing more could be
// kept of a sender alone without that.
func TestSharesOfRandomBags(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	names := []string{"x", "y"}
	for range 300 {
		share, aspects := 0.1+0.9*rng.Float64(), names[:rng.IntN(3)]
		var bags []feedback.Bag
		for i := range rng.IntN(120) {
			b := feedback.Bag{ID: feedback.HashOf(fmt.Sprint(i)), Sender: feedback.HashOf(fmt.Sprint(rng.IntN(1 + rng.IntN(6))))}
			b.Labels.Whole = labelOf(rng.IntN(2) == 0)
			for _, name := range aspects {
				if rng.IntN(2) == 0 {
					if b.Labels.Aspects == nil {
						b.Labels.Aspects = map[string]bag.Label{}
					}
					b.Labels.Aspects[name] = labelOf(rng.IntN(2) == 0)
				}
			}
			bags = append(bags, b)
		}
		most := rng.IntN(len(bags) + 1)
		kept := feedback.LimitSenders(bags, share, most, aspects...)
		if len(kept) > most {
			t.Fatalf("%d bags, at most %d", len(kept), most)
		}
		judged := aspects
		if len(aspects) != 1 {
			judged = append([]string{""}, aspects...) // "": the label of the whole response
		}
		for _, name := range judged {
			for _, label := range []bag.Label{bag.Violation, bag.Compliant} {
				senders, n := map[feedback.Hash]int{}, 0
				for _, b := range kept {
					of := b.Labels.Whole
					if name != "" {
						of = b.Labels.For(name, len(aspects))
					}
					if of == label {
						senders[b.Sender]++
						n++
					}
				}
				for _, of := range senders {
					if share < 1 && float64(of) > share*float64(n)+1e-6 {
						t.Fatalf("%d of %d with %s %s are of one sender, the share is %v", of, n, name, label, share)
					}
				}
			}
		}
	}
}

// The counts of the status are those of the responses that a training run takes.
func TestStatsOfSenders(t *testing.T) {
	x := feedback.NewIndex()
	apply := func(token, id string, violation bool) {
		x.Apply(sent(token, mark(id, "r", violation, 0, x.Last()+1)))
	}
	for i := range 50 {
		apply("ann", fmt.Sprint("a", i), i%2 == 0)
	}
	since := x.Last()
	for i := range 400 {
		apply("flood", fmt.Sprint("f", i), i%4 != 0)
	}
	for _, share := range []float64{0, 1, 0.5, 0.4, 0.9} {
		split := feedback.Split{Share: 0.3, MaxSenderShare: share}
		got := x.Stats(split, since)
		var want feedback.Stats
		for _, heldOut := range []bool{false, true} {
			var side []feedback.Bag
			for b := range x.Bags(split) {
				if b.HeldOut == heldOut {
					side = append(side, b)
				}
			}
			slices.Reverse(side) // the new ones first
			kept := side
			if share > 0 {
				kept = feedback.LimitSenders(side, share, len(side))
			}
			want.OverShare += len(side) - len(kept)
			for _, b := range side {
				if b.Violation {
					want.OverShareViolations++
				}
			}
			for _, b := range kept {
				violation := 0
				if b.Violation {
					violation = 1
				}
				want.OverShareViolations -= violation
				switch {
				case heldOut:
					want.HeldOut++
					want.HeldOutViolations += violation
				default:
					want.Bags++
					want.Violations += violation
					if b.Sequence > since {
						want.New.Bags++
						want.New.Violations += violation
					}
				}
			}
		}
		want.Records, want.Raters = 450, 1
		if !reflect.DeepEqual(got, want) {
			t.Errorf("share %v: got %+v, want %+v", share, got, want)
		}
	}
	both := x.Stats(feedback.Split{Share: 0.3, MaxSenderShare: 0.5}, since, "toxicity", "refusal")
	if both.OverShare == 0 || both.Aspects["toxicity"].OverShare == 0 || both.Aspects["toxicity"].OverShareViolations != 0 {
		t.Errorf("a label of the whole response names no violated aspect: %+v", both)
	}
}

func TestSenderOfAResponse(t *testing.T) {
	for _, c := range []struct {
		name   string
		labels string // TOKEN=LABEL in the order of the stream, each of another rater
		want   string // "": without a token
	}{
		{"one", "ann=violation", "ann"},
		{"without a token", "=violation", ""},
		{"from the same machine", "loopback=violation", ""},
		{"unknown callers", "anonymous=violation", ""},
		{"two who agree", "ann=violation ben=violation", "ben"},
		{"three who agree", "ann=violation ben=violation carl=violation", "ben"},
		{"outvoted", "ann=violation ben=compliant ben=compliant", "ben"},
		{"outvotes", "ben=compliant ben=compliant ann=violation ann=violation ann=violation", "ann"},
		{"one of the minority", "ben=compliant ann=violation carl=violation", "carl"},
		{"a tie", "ann=violation ben=compliant", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := feedback.NewIndex()
			for i, text := range strings.Fields(c.labels) {
				token, label, _ := strings.Cut(text, "=")
				r := feedback.Record{Bag: bag.Bag{ID: "r", Rater: fmt.Sprint("rater", i), Label: bag.Label(label), Response: "Text."}, By: token}
				x.Apply(r.Mark(uint64(i + 1)))
			}
			var want feedback.Hash
			if c.want != "" {
				want = feedback.HashOf(c.want)
			}
			for b := range x.Bags(feedback.Split{}) {
				if b.Sender != want {
					t.Errorf("got %v, want that of %q", b.Sender, c.want)
				}
			}
		})
	}
}

// Aspects that one sender named, of a response whose whole label is of another, are
// labels of neither.
func TestSenderOfAspects(t *testing.T) {
	x := feedback.NewIndex()
	for i, m := range []feedback.Mark{
		sent("ann", mark("mixed", "r", true, 0, 0)), sent("ben", named(mark("mixed", "s", true, 0, 0), "refusal=violation", "toxicity=compliant")),
		sent("ann", named(mark("both", "r", true, 0, 0), "refusal=violation")), sent("ben", named(mark("both", "s", true, 0, 0), "refusal=violation")),
	} {
		m.Sequence = uint64(i + 1)
		x.Apply(m)
	}
	want := map[feedback.Hash]feedback.Hash{feedback.HashOf("mixed"): {}, feedback.HashOf("both"): feedback.HashOf("ben")}
	for b := range x.Bags(feedback.Split{}, "refusal", "toxicity") {
		if b.Sender != want[b.ID] {
			t.Errorf("got %v, want %v of %+v", b.Sender, want[b.ID], b)
		}
	}
}
