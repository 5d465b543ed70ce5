package rewardmodel

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"assay/segmenter"
)

// Converted offsets map back to the same bytes, in every unit, for every character of a text.
func TestRulerIsTheInverseOfConvert(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	for range 200 {
		var b strings.Builder
		for range random.IntN(120) {
			b.WriteString(append(pieces(), "\xff", "\xf0\x9f")[random.IntN(len(pieces())+2)])
		}
		text := b.String()
		var bounds []segmenter.Span
		for i := range text {
			_, size := utf8.DecodeRuneInString(text[i:])
			bounds = append(bounds, segmenter.Span{Start: i, End: i + size})
		}
		for _, unit := range []OffsetUnit{OffsetCodepoint, OffsetUTF8, OffsetUTF16} {
			var offsets [][2]int
			for _, s := range unit.Convert(text, bounds) {
				offsets = append(offsets, [2]int{s.Start, s.End})
			}
			got, err := unit.byteSpans("x", text, offsets)
			if err != nil || !slices.Equal(got, bounds) {
				t.Fatalf("%s of %q: got %v and %v, want %v", unit, text, got, err, bounds)
			}
			ruler, begins := newRuler(text, unit), 0
			for offset := range ruler.length {
				if _, ok := ruler.byteAt(offset); ok {
					begins++
				}
			}
			if begins != len(bounds) {
				t.Fatalf("%s of %q: %d characters begin, want %d", unit, text, begins, len(bounds))
			}
		}
	}
}

func TestInvalidTokenOffsets(t *testing.T) {
	const text = "a😀é." // 1 + 4 + 2 + 1 bytes, 1 + 2 + 1 + 1 UTF-16 units
	for _, test := range []struct {
		unit    OffsetUnit
		offsets [][2]int
		want    string
	}{
		{OffsetCodepoint, [][2]int{{0, 1}, {1, 5}}, "x[1]: [1,5]: 5 is outside the response, which has 4 codepoint units"},
		{OffsetCodepoint, [][2]int{{-1, 1}}, "x[0]: [-1,1]: -1 is outside"},
		{OffsetUTF8, [][2]int{{0, 3}}, "x[0]: [0,3]: 3 is in the middle of a character"},
		{OffsetUTF8, [][2]int{{6, 7}}, "6 is in the middle"},
		{OffsetUTF8, [][2]int{{0, 9}}, "9 is outside"},
		{OffsetUTF16, [][2]int{{2, 3}}, "2 is in the middle"},
		{OffsetUTF16, [][2]int{{0, 6}}, "6 is outside"},
		{OffsetUTF16, [][2]int{{0, 1}, {2, 2}}, "x[1]: [2,2]: 2 is in the middle"},
		{OffsetCodepoint, [][2]int{{2, 1}}, "the start is beyond the end"},
		{OffsetCodepoint, [][2]int{{1, 2}, {0, 0}, {0, 1}}, "x[2]: [0,1]: it starts before a preceding token"},
	} {
		_, err := test.unit.byteSpans("x", text, test.offsets)
		if err == nil || err.Kind != KindInvalid || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v %s: got %v, want %q", test.offsets, test.unit, err, test.want)
		}
	}
	if got, err := OffsetUTF16.byteSpans("x", text, [][2]int{{5, 5}, {0, 1}, {0, 0}, {1, 3}, {1, 3}, {3, 5}}); err != nil || got[3] != (segmenter.Span{Start: 1, End: 5}) {
		t.Errorf("got %v, %v", got, err)
	}
}
