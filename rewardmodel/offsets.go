package rewardmodel

import (
	"unicode/utf8"

	"assay/segmenter"
)

// Convert turns byte spans of text into spans that count u. It walks the text
// once when the spans' starts are in order and so are their ends, as those of
// a segmenter or a tokenizer are. A byte that is not valid UTF-8 counts as one
// code point; an offset inside of a character becomes that of its first byte;
// one beyond the text becomes its end. The spans given are not changed.
func (u OffsetUnit) Convert(text string, spans []segmenter.Span) []segmenter.Span {
	out := make([]segmenter.Span, len(spans))
	if u == OffsetUTF8 || isASCII(text) {
		for i, s := range spans {
			out[i] = segmenter.Span{Start: clamp(s.Start, text), End: clamp(s.End, text)}
		}
		return out
	}
	starts, ends := cursor{text: text, unit: u}, cursor{text: text, unit: u}
	for i, s := range spans {
		out[i].Start = starts.at(s.Start)
		if ends.byte < starts.byte {
			ends = starts // the same count so far: no need to walk it twice
		}
		out[i].End = ends.at(s.End)
		if next := ends; i+1 < len(spans) && spans[i+1].Start >= next.byte {
			starts = next
		}
	}
	return out
}

// cursor knows how many units lie before one byte of a text.
type cursor struct {
	text  string
	unit  OffsetUnit
	byte  int
	count int
}

// at moves to a byte offset, from the beginning again when it lies behind.
func (c *cursor) at(offset int) int {
	offset = clamp(offset, c.text)
	if offset < c.byte {
		c.byte, c.count = 0, 0
	}
	for c.byte < offset {
		r, size := utf8.DecodeRuneInString(c.text[c.byte:])
		if c.byte+size > offset {
			break // inside of this character
		}
		c.byte += size
		c.count++
		if c.unit == OffsetUTF16 && r > 0xFFFF {
			c.count++
		}
	}
	return c.count
}

func clamp(offset int, text string) int { return min(max(offset, 0), len(text)) }

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
