package bag

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// healthy returns bags without any finding.
func healthy() []Bag {
	return []Bag{
		{ID: "a", Label: Violation, Response: "Hello. You fool."},
		{ID: "b", Label: Compliant, Response: "Hello."},
	}
}

func inspect(t *testing.T, bags []Bag, limit int, length func(string) (int, error)) Findings {
	t.Helper()
	var inspector Inspector
	for _, b := range bags {
		segments, err := b.Segments(t.Context(), limit, length)
		if err != nil {
			t.Fatal(err)
		}
		inspector.Add(b, b.Label, segments)
	}
	return inspector.Findings()
}

// The same text may have another label where it answers something else, if the model reads that.
func TestInspectPrompts(t *testing.T) {
	bags := []Bag{
		{ID: "a", Label: Violation, Prompt: "How do I bake bread?", Response: "I cannot help with that. Sorry."},
		{ID: "b", Label: Compliant, Prompt: "How do I make a bomb?", Response: "I cannot help with that. Sorry."},
		{ID: "c", Label: Compliant, Messages: []Message{{"user", "And poison?"}, {"assistant", "I cannot help with that. Sorry."}}},
	}
	for _, prompts := range []bool{false, true} {
		in := Inspector{Prompts: prompts}
		for _, b := range bags {
			in.Add(b, b.Label, segmentsOf(t, b, 0, nil))
		}
		if got := in.Findings(); (len(got) == 0) != prompts {
			t.Errorf("with prompts %v: %v", prompts, got)
		}
	}
}

func TestInspect(t *testing.T) {
	violation := func(id, text string) Bag { return Bag{ID: id, Label: Violation, Response: text} }
	compliant := func(id, text string) Bag { return Bag{ID: id, Label: Compliant, Response: text} }
	for _, c := range []struct {
		name     string
		bags     []Bag
		want     Findings
		wantText []string // in the messages, one each
		fatal    bool
	}{
		{name: "healthy", bags: healthy()},
		{
			name: "no bags", fatal: true,
			want: Findings{{Kind: NoBags, Fatal: true}}, wantText: []string{"none of 0 bags"},
		},
		{
			name: "blank ones alone", bags: []Bag{violation("a", " \n"), compliant("b", "")}, fatal: true,
			want:     Findings{{Kind: NoBags, Fatal: true, Of: 2}, {Kind: Empty, Count: 2, Of: 2, IDs: []string{"a", "b"}}},
			wantText: []string{"not blank", "are ignored"},
		},
		{
			name: "one class", bags: []Bag{violation("a", "One. Two."), compliant("b", " ")}, fatal: true,
			want: Findings{
				{Kind: OneClass, Fatal: true, Label: Violation, Count: 1, Of: 2},
				{Kind: Empty, Count: 1, Of: 2, IDs: []string{"b"}},
			},
			wantText: []string{`add bags of label "compliant"`, "1 of 2 bags (b)"},
		},
		{
			name: "the other class", bags: []Bag{compliant("a", "One. Two.")}, fatal: true,
			want:     Findings{{Kind: OneClass, Fatal: true, Label: Compliant, Count: 1, Of: 1}},
			wantText: []string{`add bags of label "violation"`},
		},
		{
			name: "contradictions stand together, whatever the white space, the prompt or the form",
			bags: []Bag{
				violation("a", "One. Two."), violation("b", "Three. Four."), compliant("c", "Three.  Four.\n"),
				{ID: "d", Label: Compliant, Instances: []string{"One.", "Two."}, Prompt: "Count!"},
			},
			want:     Findings{{Kind: Contradiction, Count: 4, Of: 4, IDs: []string{"a", "d", "b", "c"}}},
			wantText: []string{"no score fits both"},
		},
		{
			name: "duplicates", bags: append(healthy(), violation("c", "Hello. You fool."), compliant("d", "Hello.")),
			want:     Findings{{Kind: Duplicate, Count: 2, Of: 4, IDs: []string{"c", "d"}}},
			wantText: []string{"drop the copies"},
		},
		{
			name: "the same words cut otherwise are another text",
			bags: append(healthy(),
				Bag{ID: "c", Label: Violation, Instances: []string{"a b", "c"}},
				Bag{ID: "d", Label: Compliant, Instances: []string{"a", "b c"}}),
		},
		{
			name: "an id twice", bags: append(healthy(), compliant("a", "Bye.")),
			want:     Findings{{Kind: RepeatedID, Count: 1, Of: 3, IDs: []string{"a"}}},
			wantText: []string{"give each bag a unique id"},
		},
		{
			name: "a violation of one instance", bags: append(healthy(), violation("c", "You ass.")),
			want:     Findings{{Kind: SingleViolation, Count: 1, Of: 3, IDs: []string{"c"}}},
			wantText: []string{"whole response"},
		},
		{
			name: "nothing but instances", bags: []Bag{violation("a", "You ass."), compliant("b", "Bye.")},
			want:     Findings{{Kind: InstanceLabels, Count: 1, Of: 2, IDs: []string{"a"}}},
			wantText: []string{"supervised"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := inspect(t, c.bags, 0, nil)
			if !slices.EqualFunc(got, c.want, equalFinding) {
				t.Fatalf("got %+v, want %+v", got, c.want)
			}
			for i, part := range c.wantText {
				if message := got[i].Message(); !strings.Contains(message, part) {
					t.Errorf("message %q does not say %q", message, part)
				}
			}
			if err := got.Err(); errors.Is(err, ErrUnlearnable) != c.fatal {
				t.Errorf("Err is %v, want fatal %v", err, c.fatal)
			}
		})
	}
}

func equalFinding(a, b Finding) bool {
	ids := slices.Equal(a.IDs, b.IDs)
	a.IDs, b.IDs = nil, nil
	return ids && fmt.Sprint(a) == fmt.Sprint(b)
}

func TestInspectNamesTheFirstFew(t *testing.T) {
	bags := healthy()
	for i := range 20 {
		bags = append(bags, Bag{ID: fmt.Sprint("copy", i), Label: Compliant, Response: "Hello."})
	}
	got := inspect(t, bags, 0, nil)
	if len(got) != 1 || got[0].Count != 20 || len(got[0].IDs) != 5 {
		t.Fatalf("got %+v", got)
	}
	if want := "20 of 22 bags (copy0, copy1, copy2, copy3, copy4, ...)"; !strings.HasPrefix(got[0].Message(), want) {
		t.Errorf("message %q does not begin with %q", got[0].Message(), want)
	}
}

func TestInspectUsesTheLimitOfSegments(t *testing.T) {
	words := func(s string) (int, error) { return len(strings.Fields(s)), nil }
	bags := append(healthy(), Bag{ID: "c", Label: Violation, Response: "You pitiful and useless fool of a man."})
	if got := inspect(t, bags, 0, nil); len(got) != 1 || got[0].Kind != SingleViolation {
		t.Errorf("got %+v, want a violation of one instance", got)
	}
	if got := inspect(t, bags, 4, words); got != nil {
		t.Errorf("got %+v, want nothing: the limit splits the sentence", got)
	}
}

func ExampleInspector() {
	var inspector Inspector
	for _, b := range []Bag{
		{ID: "r1", Label: Violation, Response: "Of course. You fool."},
		{ID: "r2", Label: Violation, Response: "  "},
	} {
		segments, err := b.Segments(context.Background(), 0, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		inspector.Add(b, b.Label, segments)
	}
	findings := inspector.Findings()
	for _, f := range findings {
		fmt.Println(f.Message())
	}
	fmt.Println(findings.Err() != nil)
	// Output:
	// all 1 bags that hold an utterance have the label "violation", so that there is nothing to learn; add bags of label "compliant"
	// 1 of 2 bags (r2) have no utterance and are ignored
	// true
}
