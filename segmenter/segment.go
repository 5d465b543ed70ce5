package segmenter

import (
	"unicode"
	"unicode/utf8"
)

// Segment cuts text into utterances. The spans are in document order, do not
// overlap, begin and end with a non-space character, lie on rune boundaries
// and together cover every non-space character of text. It takes linear time
// and treats each byte of invalid UTF-8 as one character.
func Segment(text string) []Span {
	s := scanner{text: text, out: make([]Span, 0, len(text)/80+1)}
	s.blocks()
	return s.out
}

// scanner walks a text once: blocks by line structure, sentences in blocks.
type scanner struct {
	text string
	out  []Span
	para []line // the paragraph being gathered
}

// emit adds text[start:end], trimmed, unless it is blank.
func (s *scanner) emit(start, end int) {
	if span := trim(s.text, Span{start, end}); span.Start < span.End {
		s.out = append(s.out, span)
	}
}

// trim narrows span to its first and last non-space characters; a blank span
// becomes empty.
func trim(text string, span Span) Span {
	for span.Start < span.End {
		r, n := utf8.DecodeRuneInString(text[span.Start:span.End])
		if !unicode.IsSpace(r) {
			break
		}
		span.Start += n
	}
	for span.Start < span.End {
		r, n := utf8.DecodeLastRuneInString(text[span.Start:span.End])
		if !unicode.IsSpace(r) {
			break
		}
		span.End -= n
	}
	return span
}
