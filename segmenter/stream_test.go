package segmenter

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
)

// streamed feeds the pieces of text between cuts, which are in order, to a stream.
func streamed(t testing.TB, text string, cuts []int) []Utterance {
	t.Helper()
	var s Stream
	var out []Utterance
	from := 0
	for _, cut := range append(cuts, len(text)) {
		got, err := s.Feed(context.Background(), text[from:cut])
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, got...)
		from = cut
	}
	got, err := s.Close(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return append(out, got...)
}

// checkStream fails unless a stream of text cut at cuts returns what Segment returns.
func checkStream(t testing.TB, text string, cuts []int) {
	t.Helper()
	want, got := segment(text), streamed(t, text, cuts)
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(want):
			t.Fatalf("%q cut at %v: there is a further utterance %d %v %q", text, cuts, i, got[i].Span, got[i].Text)
		case i >= len(got):
			t.Fatalf("%q cut at %v: utterance %d %q is missing", text, cuts, i, text[want[i].Start:want[i].End])
		case got[i].Span != want[i] || got[i].Text != text[want[i].Start:want[i].End]:
			t.Fatalf("%q cut at %v: utterance %d is %v %q, want %v %q", text, cuts, i, got[i].Span, got[i].Text, want[i], text[want[i].Start:want[i].End])
		}
	}
}

// everyByte returns the cuts of text into single bytes.
func everyByte(text string) []int {
	cuts := make([]int, len(text))
	for i := range cuts {
		cuts[i] = i
	}
	return cuts
}

func TestStreamOfBytes(t *testing.T) {
	for _, c := range cases {
		text := strings.ReplaceAll(c.text, "¦", "")
		checkStream(t, text, everyByte(text))
	}
	for _, text := range append(seeds, answer, answer+answer) {
		checkStream(t, text, everyByte(text))
	}
}

// TestStreamAtRandom mixes units of hostile and ordinary texts and cuts them at random.
func TestStreamAtRandom(t *testing.T) {
	rounds := 20_000
	rng := rand.New(rand.NewPCG(3, 5))
	var units []string
	units = append(units, costUnits...)
	for _, c := range hostile {
		units = append(units, c.unit)
	}
	for _, c := range cases {
		text := strings.ReplaceAll(c.text, "¦", "")
		units = append(units, strings.SplitAfter(text, " ")...)
		units = append(units, strings.SplitAfter(text, "\n")...)
		units = append(units, text)
	}
	for range rounds {
		var b strings.Builder
		for range 1 + rng.IntN(20) {
			b.WriteString(units[rng.IntN(len(units))])
		}
		text := b.String()
		var cuts []int
		step := 1 + rng.IntN(12)
		for at := rng.IntN(step); at < len(text); at += 1 + rng.IntN(step) {
			cuts = append(cuts, at)
		}
		checkStream(t, text, cuts)
	}
}
