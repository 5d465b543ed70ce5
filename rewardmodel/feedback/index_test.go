package feedback_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

// mark is short for a mark of the text "t".
func mark(id, rater string, violation bool, minute int, sequence uint64) feedback.Mark {
	m := feedback.Mark{
		ID: feedback.HashOf(id), Rater: feedback.HashOf(rater), Text: feedback.HashOf("t"),
		Labels: feedback.Labels{Whole: labelOf(violation)}, Sequence: sequence,
	}
	if minute > 0 {
		at := time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC)
		m.Time = &at
	}
	return m
}

func labelOf(violation bool) bag.Label {
	if violation {
		return bag.Violation
	}
	return bag.Compliant
}

// named is a mark with labels of aspects only: "a=violation", and so on.
func named(m feedback.Mark, labels ...string) feedback.Mark {
	m.Labels = feedback.Labels{Aspects: map[string]bag.Label{}}
	for _, l := range labels {
		aspect, label, _ := strings.Cut(l, "=")
		m.Labels.Aspects[aspect] = bag.Label(label)
	}
	return m
}

func other(m feedback.Mark) feedback.Mark {
	m.Text = feedback.HashOf("another")
	return m
}

func prompted(m feedback.Mark) feedback.Mark {
	m.Prompted = true
	return m
}

func TestCheck(t *testing.T) {
	const timeless = 0
	for _, c := range []struct {
		name     string
		known    []feedback.Mark
		sent     feedback.Mark
		want     feedback.Verdict
		replaces uint64
	}{
		{"new", nil, mark("a", "r", true, timeless, 0), feedback.Accept, 0},
		{"another id", []feedback.Mark{mark("b", "r", true, timeless, 1)}, mark("a", "r", true, timeless, 0), feedback.Accept, 0},
		{"another rater", []feedback.Mark{mark("a", "r", true, timeless, 1)}, mark("a", "s", true, timeless, 0), feedback.Accept, 0},
		{"no rater is one", []feedback.Mark{mark("a", "", true, timeless, 1)}, mark("a", "", true, timeless, 0), feedback.Duplicate, 1},
		{"the same again", []feedback.Mark{mark("a", "r", true, timeless, 1)}, mark("a", "r", true, timeless, 0), feedback.Duplicate, 1},
		{"the other label", []feedback.Mark{mark("a", "r", true, timeless, 1)}, mark("a", "r", false, timeless, 0), feedback.Accept, 1},
		{"a time added", []feedback.Mark{mark("a", "r", true, timeless, 1)}, mark("a", "r", true, 1, 0), feedback.Duplicate, 1},
		{"a time added, the other label", []feedback.Mark{mark("a", "r", true, timeless, 1)}, mark("a", "r", false, 1, 0), feedback.Accept, 1},
		{"a time dropped", []feedback.Mark{mark("a", "r", true, 1, 1)}, mark("a", "r", true, timeless, 0), feedback.Duplicate, 1},
		{"a time dropped, the other label", []feedback.Mark{mark("a", "r", true, 1, 1)}, mark("a", "r", false, timeless, 0), feedback.Accept, 1},
		{"earlier", []feedback.Mark{mark("a", "r", true, 2, 1)}, mark("a", "r", true, 1, 0), feedback.Duplicate, 1},
		{"earlier, the other label", []feedback.Mark{mark("a", "r", true, 2, 1)}, mark("a", "r", false, 1, 0), feedback.Duplicate, 1},
		{"the same time", []feedback.Mark{mark("a", "r", true, 2, 1)}, mark("a", "r", true, 2, 0), feedback.Duplicate, 1},
		{"the same time, the other label", []feedback.Mark{mark("a", "r", true, 2, 1)}, mark("a", "r", false, 2, 0), feedback.Accept, 1},
		{"later", []feedback.Mark{mark("a", "r", true, 2, 1)}, mark("a", "r", true, 3, 0), feedback.Accept, 1},
		{"later, the other label", []feedback.Mark{mark("a", "r", true, 2, 1)}, mark("a", "r", false, 3, 0), feedback.Accept, 1},
		{"the second rater", []feedback.Mark{mark("a", "r", true, 2, 1), mark("a", "s", true, 2, 2)}, mark("a", "s", false, 3, 0), feedback.Accept, 2},
		{"after a correction", []feedback.Mark{mark("a", "r", true, 0, 1), mark("a", "r", false, 0, 2)}, mark("a", "r", true, 0, 0), feedback.Accept, 2},
		{"another text", []feedback.Mark{mark("a", "r", true, 2, 1)}, other(mark("a", "r", true, 3, 0)), feedback.Conflict, 1},
		{"another rater's text", []feedback.Mark{mark("a", "r", true, 2, 1)}, other(mark("a", "s", true, 3, 0)), feedback.Conflict, 0},
		{"the text of a race that was lost", []feedback.Mark{mark("a", "r", true, 0, 1), other(mark("a", "s", true, 0, 2))}, mark("a", "r", true, 0, 0), feedback.Conflict, 1},
		{"another aspect", []feedback.Mark{named(mark("a", "r", true, 0, 1), "x=violation")}, named(mark("a", "r", true, 0, 0), "x=violation", "y=compliant"), feedback.Accept, 1},
		{"another label of an aspect", []feedback.Mark{named(mark("a", "r", true, 0, 1), "x=violation")}, named(mark("a", "r", true, 0, 0), "x=compliant"), feedback.Accept, 1},
		{"the same aspects", []feedback.Mark{named(mark("a", "r", true, 0, 1), "x=violation", "y=compliant")}, named(mark("a", "r", true, 0, 0), "y=compliant", "x=violation"), feedback.Duplicate, 1},
		{"an aspect instead of the whole", []feedback.Mark{mark("a", "r", true, 0, 1)}, named(mark("a", "r", true, 0, 0), "x=violation"), feedback.Accept, 1},
		{"with its prompt", []feedback.Mark{mark("a", "r", true, timeless, 1)}, prompted(mark("a", "r", true, timeless, 0)), feedback.Accept, 1},
		{"with its prompt, older", []feedback.Mark{mark("a", "r", true, 2, 1)}, prompted(mark("a", "r", true, 1, 0)), feedback.Duplicate, 1},
		{"with its prompt again", []feedback.Mark{prompted(mark("a", "r", true, timeless, 1))}, prompted(mark("a", "r", true, timeless, 0)), feedback.Duplicate, 1},
		{"without its prompt", []feedback.Mark{prompted(mark("a", "r", true, timeless, 1))}, mark("a", "r", true, timeless, 0), feedback.Duplicate, 1},
		{"the text of a race that was won", []feedback.Mark{mark("a", "r", true, 0, 1), other(mark("a", "s", true, 0, 2))}, other(mark("a", "r", true, 0, 0)), feedback.Accept, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, known := range [][]feedback.Mark{c.known, reversed(c.known)} {
				x := feedback.NewIndex()
				for _, m := range known {
					x.Apply(m)
				}
				if got, replaces := x.Check(c.sent); got != c.want || replaces != c.replaces {
					t.Errorf("got %v and %d, want %v and %d", got, replaces, c.want, c.replaces)
				}
				x.Erase(c.sent.ID, 9)
				if got, replaces := x.Check(c.sent); got != feedback.Erased || replaces != 0 {
					t.Errorf("erased: got %v and %d", got, replaces)
				}
			}
		})
	}
}

func reversed(marks []feedback.Mark) []feedback.Mark {
	out := slices.Clone(marks)
	slices.Reverse(out)
	return out
}

func TestEraseStays(t *testing.T) {
	x := feedback.NewIndex()
	x.Apply(mark("a", "r", true, 0, 1))
	x.Apply(mark("a", "s", true, 0, 2))
	x.Apply(mark("b", "r", true, 0, 3))
	x.Erase(feedback.HashOf("a"), 4)
	x.Apply(mark("a", "r", true, 0, 1)) // read late
	want := feedback.Stats{Bags: 1, Violations: 1, Raters: 1, Records: 1}
	want.New.Bags, want.New.Violations = 1, 1
	if got := x.Stats(feedback.Split{}, 0); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if !x.Erased(feedback.HashOf("a")) || x.Erased(feedback.HashOf("b")) || x.Last() != 4 {
		t.Errorf("erased a: %v, b: %v, last %d", x.Erased(feedback.HashOf("a")), x.Erased(feedback.HashOf("b")), x.Last())
	}
}

func TestMajority(t *testing.T) {
	x := feedback.NewIndex()
	for i, m := range []feedback.Mark{
		mark("tie", "r", true, 0, 0), mark("tie", "s", false, 0, 0),
		mark("most", "r", true, 0, 0), mark("most", "s", false, 0, 0), mark("most", "t", true, 0, 0),
		mark("corrected", "r", true, 0, 0), mark("corrected", "r", false, 0, 0),
		other(mark("race", "r", true, 0, 0)), mark("race", "s", false, 0, 0),
	} {
		m.Sequence = uint64(i + 1)
		x.Apply(m)
	}
	want := []feedback.Bag{
		{ID: feedback.HashOf("tie"), Sequence: 2, Disputed: true, Raters: 2},
		{ID: feedback.HashOf("most"), Sequence: 5, Violation: true, Raters: 3, Labels: feedback.Labels{Whole: bag.Violation}},
		{ID: feedback.HashOf("corrected"), Sequence: 7, Raters: 1, Labels: feedback.Labels{Whole: bag.Compliant}},
		{ID: feedback.HashOf("race"), Sequence: 9, Raters: 1, Labels: feedback.Labels{Whole: bag.Compliant}},
	}
	if got := slices.Collect(x.Bags(feedback.Split{})); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	stats := feedback.Stats{Bags: 3, Violations: 1, Disputed: 1, Raters: 3, Records: 8}
	stats.New.Bags = 2
	if got := x.Stats(feedback.Split{}, 5); !reflect.DeepEqual(got, stats) {
		t.Errorf("got  %+v\nwant %+v", got, stats)
	}
	held := feedback.Stats{HeldOut: 3, HeldOutViolations: 1, Disputed: 1, Raters: 3, Records: 8}
	if got := x.Stats(feedback.Split{Share: 1}, 0); !reflect.DeepEqual(got, held) {
		t.Errorf("all held out: got %+v, want %+v", got, held)
	}
}

// Labels are counted for each aspect, also for one that the model does not have.
func TestStatsByAspect(t *testing.T) {
	x := feedback.NewIndex()
	for i, m := range []feedback.Mark{
		mark("whole", "r", false, 0, 0), mark("which", "r", true, 0, 0),
		named(mark("one", "r", true, 0, 0), "toxicity=violation"),
		named(mark("both", "r", true, 0, 0), "toxicity=compliant", "refusal=violation"),
		named(mark("tie", "r", true, 0, 0), "toxicity=compliant"), named(mark("tie", "s", true, 0, 0), "toxicity=violation", "refusal=compliant"),
		named(mark("typo", "r", true, 0, 0), "toxcity=violation"),
	} {
		m.Sequence = uint64(i + 1)
		x.Apply(m)
	}
	fresh := func(bags, violations int) feedback.NewCounts {
		return feedback.NewCounts{Bags: bags, Violations: violations}
	}
	typo := feedback.AspectStats{Bags: 1, Violations: 1, New: fresh(1, 1), Unknown: true}
	want := feedback.Stats{Bags: 5, Violations: 3, Raters: 2, Records: 7, New: fresh(3, 2), Aspects: map[string]feedback.AspectStats{
		"toxicity": {Bags: 3, Violations: 1, Disputed: 1, New: fresh(2, 1)},
		"refusal":  {Bags: 3, Violations: 1, New: fresh(2, 1)},
		"toxcity":  typo,
	}}
	if got := x.Stats(feedback.Split{}, 2, "toxicity", "refusal"); !reflect.DeepEqual(got, want) {
		t.Errorf("two aspects: got  %+v\nwant %+v", got, want)
	}
	// A model with one aspect has every label of the whole response.
	got := x.Stats(feedback.Split{}, 0)
	if got.Bags != 2 || got.Violations != 1 || got.Disputed != 0 || got.Records != 7 || len(got.Aspects) != 4 ||
		got.Aspects["default"].Bags != 2 || got.Aspects["toxcity"] != typo || !got.Aspects["toxicity"].Unknown {
		t.Errorf("one aspect: got %+v", got)
	}
	for b := range x.Bags(feedback.Split{}) {
		if unlabeled := b.Labels.Whole == ""; b.Unlabeled != unlabeled {
			t.Errorf("one aspect: got %+v", b)
		}
	}
}
