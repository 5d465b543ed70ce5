package rewardmodel

import (
	"unicode/utf8"

	"assay/segmenter"
)

// Convert turns byte spans of text into spans that count u. It walks the text
// once when the spans' starts are in order and so are their ends, as those of
// a segmenter or a tokenizer are. A byte that is not valid UTF-8 counts as one
// code point; an offset inside a character becomes that of its first byte; one
// beyond the text becomes its end. Convert does not change spans.
func (u OffsetUnit) Convert(text string, spans []segmenter.Span) []segmenter.Span {
	out := make([]segmenter.Span, len(spans))
	if u == OffsetUTF8 || isASCII(text) {
		for i, s := range spans {
			out[i] = segmenter.Span{Start: clamp(s.Start, text), End: clamp(s.End, text)}
		}
		return out
	}
	counter := newSpanCounter(u)
	for i, s := range spans {
		out[i] = counter.count(text, s)
	}
	return out
}

// spanCounter converts byte spans of a text that may grow to a unit, as
// OffsetUnit.Convert does, one after the other.
type spanCounter struct{ starts, ends cursor }

func newSpanCounter(unit OffsetUnit) spanCounter {
	return spanCounter{cursor{unit: unit}, cursor{unit: unit}}
}

// count converts a span of text, the whole text so far.
func (s *spanCounter) count(text string, span segmenter.Span) segmenter.Span {
	if s.starts.unit == OffsetUTF8 {
		return span
	}
	s.starts.text, s.ends.text = text, text
	if s.ends.byte <= span.Start {
		s.starts = s.ends // the same count so far: no need to walk it twice
	}
	start := s.starts.at(span.Start)
	if s.ends.byte < s.starts.byte {
		s.ends = s.starts
	}
	return segmenter.Span{Start: start, End: s.ends.at(span.End)}
}

// cursor counts the units before one byte of a text.
type cursor struct {
	text  string
	unit  OffsetUnit
	byte  int
	count int
}

// at moves to a byte offset, and starts from the beginning again to move back.
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

// byteSpans converts token offsets in unit u to spans of bytes of text. It
// rejects offsets that are out of order, outside of the text or in the middle of
// a character; field is the path of offsets in the request.
func (u OffsetUnit) byteSpans(field string, text string, offsets [][2]int) ([]segmenter.Span, *InputError) {
	ruler := newRuler(text, u)
	spans := make([]segmenter.Span, len(offsets))
	latest := 0
	for i, o := range offsets {
		wrong := func(format string, args ...any) *InputError {
			return Invalidf(element(field, i), "[%d,%d]: "+format, append([]any{o[0], o[1]}, args...)...)
		}
		if o[0] > o[1] {
			return nil, wrong("the start is beyond the end; give [start,end] with the end exclusive")
		}
		for k, offset := range o {
			at, ok := ruler.byteAt(offset)
			switch {
			case offset < 0 || offset > ruler.length:
				return nil, wrong("%d is outside the response, which has %d %s units; see options.offset_unit", offset, ruler.length, u)
			case !ok:
				return nil, wrong("%d is in the middle of a character; round to whole characters, or set options.offset_unit to what you count", offset)
			case k == 0:
				spans[i].Start = at
			default:
				spans[i].End = at
			}
		}
		if o[0] == o[1] {
			continue
		}
		if spans[i].Start < latest {
			return nil, wrong("it starts before a preceding token; give the tokens in the order of the text")
		}
		latest = spans[i].Start
	}
	return spans, nil
}

// markEvery is how many units are between two marks of a ruler.
const markEvery = 64

// ruler converts offsets to bytes in any order, each in constant time.
type ruler struct {
	text   string
	unit   OffsetUnit
	length int        // of the text, in units
	marks  []position // the last character that begins at or before each multiple of markEvery
}

type position struct{ byte, count int }

func newRuler(text string, unit OffsetUnit) ruler {
	r := ruler{text: text, unit: unit}
	if isASCII(text) {
		r.unit, r.length = OffsetUTF8, len(text)
	}
	if r.plain() {
		r.length = len(text)
		return r
	}
	var at position
	for at.byte < len(text) {
		next := r.after(at)
		for len(r.marks)*markEvery < next.count {
			r.marks = append(r.marks, at)
		}
		at = next
	}
	r.length = at.count
	r.marks = append(r.marks, at)
	return r
}

// plain reports whether offsets are bytes.
func (r ruler) plain() bool { return r.unit == OffsetUTF8 }

// after returns the position after the character at p.
func (r ruler) after(p position) position {
	c, size := utf8.DecodeRuneInString(r.text[p.byte:])
	p.byte += size
	p.count++
	if r.unit == OffsetUTF16 && c > 0xFFFF {
		p.count++
	}
	return p
}

// byteAt returns the byte at which the character at offset begins; false when
// none begins there.
func (r ruler) byteAt(offset int) (at int, ok bool) {
	switch {
	case offset < 0 || offset > r.length:
		return 0, false
	case r.plain():
		return offset, r.boundary(offset)
	case offset == r.length:
		return len(r.text), true
	}
	p := r.marks[offset/markEvery]
	for p.count < offset {
		p = r.after(p)
	}
	return p.byte, p.count == offset
}

// boundary reports whether a character begins at a byte, or the text ends there.
// A byte that is not valid UTF-8 counts as one character.
func (r ruler) boundary(at int) bool {
	for start := max(0, at-utf8.UTFMax+1); start < at; start++ {
		if _, size := utf8.DecodeRuneInString(r.text[start:]); size > at-start {
			return false
		}
	}
	return true
}
