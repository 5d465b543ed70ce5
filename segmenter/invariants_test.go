package segmenter

import (
	"testing"
	"unicode"
	"unicode/utf8"
)

// checkOrder fails unless spans are in order, disjoint, within text and not empty.
func checkOrder(t testing.TB, text string, spans []Span) {
	t.Helper()
	at := 0
	for i, span := range spans {
		if span.Start < at || span.End <= span.Start || span.End > len(text) {
			t.Fatalf("span %d is %v after byte %d of %d", i, span, at, len(text))
		}
		at = span.End
	}
}

// checkCover fails unless spans are in order, trimmed, on rune boundaries, and
// cover every non-space character of text.
func checkCover(t testing.TB, text string, spans []Span) {
	t.Helper()
	checkOrder(t, text, spans)
	for i, span := range spans {
		if trim(text, span) != span {
			t.Fatalf("span %d %q is not trimmed", i, text[span.Start:span.End])
		}
	}
	edges := make(map[int]bool, 2*len(spans))
	for _, span := range spans {
		edges[span.Start], edges[span.End] = true, true
	}
	k := 0
	for i, r := range text {
		delete(edges, i)
		for k < len(spans) && spans[k].End <= i {
			k++
		}
		if inside := k < len(spans) && spans[k].Start <= i; !inside && !unicode.IsSpace(r) {
			t.Fatalf("%q at byte %d of %q is in no span", r, i, text)
		}
	}
	delete(edges, len(text))
	for at := range edges {
		t.Fatalf("byte %d of %q is not a rune boundary", at, text)
	}
}

var seeds = []string{
	"", " ", ".", "a", "Hi. You", "\xff. \xe3\x80 A", "# A\n\n- b. C\n```\nx\n", "a|b\n-|-\n1|2\n\n> q\n>\n> r",
	"。」と", "Dr. A. B. said: \"No.\" [1] Then :) Go", "x\n===\n    y = 1\n\n    z\n", "1) a 2) b\n(c) d",
	"$$\nx\n$$\nUser: hi\nBot: yes. no", "From: a@b C\n1/2/03 04:05 PM Hi", "Thanks,\nBo", "\u00a0.\u3000A\u2028b", "a\u0301. E\u0301",
}

func FuzzSegment(f *testing.F) {
	for _, s := range append(seeds, answer) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) { checkCover(t, text, segment(text)) })
}

// FuzzLimit checks the pieces for three length functions: bytes, code points, and one
// that is neither additive nor monotone.
func FuzzLimit(f *testing.F) {
	for i, s := range append(seeds, answer) {
		f.Add(s, i+1)
	}
	odd := func(s string) int { return (len(s)+2)/3 + len(s)%7 }
	f.Fuzz(func(t *testing.T, text string, max int) {
		max = max%64 + 1
		if max < 1 {
			max += 64
		}
		spans := segment(text)
		for _, length := range []func(string) int{func(s string) int { return len(s) }, utf8.RuneCountInString, odd} {
			pieces := limit(text, spans, max, length)
			checkCover(t, text, pieces)
			for _, p := range pieces {
				if piece := text[p.Start:p.End]; length(piece) > max && !oneCluster(piece) {
					t.Fatalf("piece %q is %d long, the limit is %d", piece, length(piece), max)
				}
			}
		}
	})
}
