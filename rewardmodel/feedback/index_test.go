package feedback_test

import (
	"slices"
	"testing"
	"time"

	"assay/rewardmodel/feedback"
)

// mark is short for a mark of the text "t".
func mark(id, rater string, violation bool, minute int, sequence uint64) feedback.Mark {
	m := feedback.Mark{
		ID: feedback.HashOf(id), Rater: feedback.HashOf(rater), Text: feedback.HashOf("t"),
		Violation: violation, Sequence: sequence,
	}
	if minute > 0 {
		at := time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC)
		m.Time = &at
	}
	return m
}

func other(m feedback.Mark) feedback.Mark {
	m.Text = feedback.HashOf("another")
	return m
}

func TestJudge(t *testing.T) {
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
		{"the text of a race that was won", []feedback.Mark{mark("a", "r", true, 0, 1), other(mark("a", "s", true, 0, 2))}, other(mark("a", "r", true, 0, 0)), feedback.Accept, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, known := range [][]feedback.Mark{c.known, reversed(c.known)} {
				x := feedback.NewIndex()
				for _, m := range known {
					x.Apply(m)
				}
				if got, replaces := x.Judge(c.sent); got != c.want || replaces != c.replaces {
					t.Errorf("got %v and %d, want %v and %d", got, replaces, c.want, c.replaces)
				}
				x.Erase(c.sent.ID, 9)
				if got, replaces := x.Judge(c.sent); got != feedback.Erased || replaces != 0 {
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
	if got := x.Stats(feedback.Split{}, 0); got != want {
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
		{ID: feedback.HashOf("most"), Sequence: 5, Violation: true, Raters: 3},
		{ID: feedback.HashOf("corrected"), Sequence: 7, Raters: 1},
		{ID: feedback.HashOf("race"), Sequence: 9, Raters: 1},
	}
	if got := slices.Collect(x.Bags(feedback.Split{})); !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	stats := feedback.Stats{Bags: 3, Violations: 1, Disputed: 1, Raters: 3, Records: 8}
	stats.New.Bags = 2
	if got := x.Stats(feedback.Split{}, 5); got != stats {
		t.Errorf("got  %+v\nwant %+v", got, stats)
	}
	held := feedback.Stats{HeldOut: 3, HeldOutViolations: 1, Disputed: 1, Raters: 3, Records: 8}
	if got := x.Stats(feedback.Split{Share: 1}, 0); got != held {
		t.Errorf("all held out: got %+v, want %+v", got, held)
	}
}
