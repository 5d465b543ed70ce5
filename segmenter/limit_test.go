package segmenter

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

func oneCluster(s string) bool { return uniseg.GraphemeClusterCount(s) == 1 }

func TestLimitBoundaries(t *testing.T) {
	for _, c := range []struct {
		name, text string
		max        int
		want       []string
	}{
		{"fits", "short enough", 12, []string{"short enough"}},
		{"line before sentence", "one two. three\nfour. five six", 22, []string{"one two. three", "four. five six"}},
		{"sentence before clause", "one, two. three, four, five", 18, []string{"one, two.", "three, four, five"}},
		{"closing quote", "so \"be it.\" one, two, three", 18, []string{"so \"be it.\"", "one, two, three"}},
		{"chinese quote", "他说「好。」然后就走了", 9, []string{"他说「好。」", "然后就走了"}},
		{"no limit", "ab", -3, []string{"a", "b"}},
		{"clause before word", "one two; three four five", 14, []string{"one two;", "three four", "five"}},
		{"word before cluster", "see abcdefghijkl", 10, []string{"see", "abcdefghij", "kl"}},
		{"clusters", strings.Repeat("e\u0301", 6), 4, []string{"e\u0301e\u0301", "e\u0301e\u0301", "e\u0301e\u0301"}},
		{"one long cluster", "👩‍👩‍👧‍👦a", 3, []string{"👩‍👩‍👧‍👦", "a"}},
		{"chinese clause", "我们今天去，明天不去了啊", 8, []string{"我们今天去，", "明天不去了啊"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, s := range limit(c.text, []Span{{0, len(c.text)}}, c.max, utf8.RuneCountInString) {
				got = append(got, c.text[s.Start:s.End])
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestLimitWork counts the bytes that length has to read.
func TestLimitWork(t *testing.T) {
	const max = 510
	for _, c := range []struct{ name, text string }{
		{"one word", strings.Repeat("a", 1<<20)},
		{"words", strings.Repeat("word ", 1<<18)},
		{"clusters", strings.Repeat("e\u0301", 1<<19)},
		{"one cluster", "a" + strings.Repeat("\u0301", 1<<19)},
		{"uneven", strings.Repeat("a", 1<<19) + strings.Repeat(" b", 1<<18)},
	} {
		t.Run(c.name, func(t *testing.T) {
			looked := 0
			length := func(s string) int {
				looked += len(s)
				return (len(s)+3)/4 + strings.Count(s, " ")
			}
			pieces := limit(c.text, []Span{{0, len(c.text)}}, max, length)
			checkOrder(t, c.text, pieces)
			if most := 40 * len(c.text); looked > most {
				t.Errorf("length read %d bytes for %d bytes of text", looked, len(c.text))
			}
			if len(pieces) < len(c.text)/4/max {
				t.Errorf("only %d pieces", len(pieces))
			}
			for _, p := range pieces {
				if n := length(c.text[p.Start:p.End]); n > max {
					t.Fatalf("a piece is %d long", n)
				}
			}
		})
	}
}
