package rewardmodel

import (
	"unicode/utf8"

	"assay/segmenter"
)

// tokenSpans turns token offsets that count u into spans of bytes of text. It
// refuses offsets that are out of order, lie outside of the text or in the
// middle of a character; the error's field begins with field.
func (u OffsetUnit) tokenSpans(field string, text string, offsets [][2]int) ([]segmenter.Span, *InputError) {
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
				return nil, wrong("%d is outside of the response, which has %d %s units; see options.offset_unit", offset, ruler.length, u)
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
			return nil, wrong("it begins before a token ahead of it; give the tokens in the order of the text")
		}
		latest = spans[i].Start
	}
	return spans, nil
}

// markEvery is how many units lie between two marks of a ruler.
const markEvery = 64

// ruler finds the bytes of offsets in any order, each in constant time.
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

// plain tells that offsets are bytes.
func (r ruler) plain() bool { return r.unit == OffsetUTF8 }

// after is the position behind the character at p.
func (r ruler) after(p position) position {
	c, size := utf8.DecodeRuneInString(r.text[p.byte:])
	p.byte += size
	p.count++
	if r.unit == OffsetUTF16 && c > 0xFFFF {
		p.count++
	}
	return p
}

// byteAt is the byte at which the character at offset begins; false when none
// does.
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

// boundary tells whether a character begins at a byte, or the text ends there.
// A byte that is not valid UTF-8 is a character of its own.
func (r ruler) boundary(at int) bool {
	for start := max(0, at-utf8.UTFMax+1); start < at; start++ {
		if _, size := utf8.DecodeRuneInString(r.text[start:]); size > at-start {
			return false
		}
	}
	return true
}
