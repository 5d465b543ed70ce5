package rewardmodel

import (
	"reflect"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"assay/segmenter"
)

func TestConvertOffsets(t *testing.T) {
	text := "aé漢😀\xffz" // 1, 2, 3, 4, 1 and 1 bytes
	spans := []segmenter.Span{{Start: 0, End: 3}, {Start: 3, End: 6}, {Start: 6, End: 10}, {Start: 10, End: 12}, {Start: -4, End: 99}, {Start: 4, End: 8}}
	for unit, want := range map[OffsetUnit][]segmenter.Span{
		OffsetUTF8:      {{Start: 0, End: 3}, {Start: 3, End: 6}, {Start: 6, End: 10}, {Start: 10, End: 12}, {Start: 0, End: 12}, {Start: 4, End: 8}},
		OffsetCodepoint: {{Start: 0, End: 2}, {Start: 2, End: 3}, {Start: 3, End: 4}, {Start: 4, End: 6}, {Start: 0, End: 6}, {Start: 2, End: 3}},
		OffsetUTF16:     {{Start: 0, End: 2}, {Start: 2, End: 3}, {Start: 3, End: 5}, {Start: 5, End: 7}, {Start: 0, End: 7}, {Start: 2, End: 3}},
	} {
		if got := unit.Convert(text, spans); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", unit, got, want)
		}
	}
}

// Converted offsets equal a count of the text before them, for spans in any order.
func FuzzConvertOffsets(f *testing.F) {
	f.Add("aé漢😀\xffz", 3, 6, 1, 10)
	f.Add("plain", 0, 5, 2, 2)
	f.Fuzz(func(t *testing.T, text string, a, b, c, d int) {
		spans := []segmenter.Span{{Start: a, End: b}, {Start: c, End: d}}
		for _, unit := range []OffsetUnit{OffsetUTF8, OffsetCodepoint, OffsetUTF16} {
			for i, got := range unit.Convert(text, spans) {
				want := segmenter.Span{Start: countUnits(unit, text, spans[i].Start), End: countUnits(unit, text, spans[i].End)}
				if got != want {
					t.Errorf("%s, %q, %v: got %v, want %v", unit, text, spans[i], got, want)
				}
			}
		}
	})
}

func countUnits(unit OffsetUnit, text string, offset int) int {
	offset = clamp(offset, text)
	if unit == OffsetUTF8 {
		return offset
	}
	count := 0
	for at, r := range text {
		size := 1 // of an invalid byte, for which range yields U+FFFD
		if r != utf8.RuneError || len(text) >= at+3 && text[at:at+3] == "\uFFFD" {
			size = utf8.RuneLen(r)
		}
		if at+size > offset {
			break
		}
		count++
		if unit == OffsetUTF16 {
			count += utf16.RuneLen(r) - 1
		}
	}
	return count
}
