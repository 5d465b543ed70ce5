package segmenter

import (
	"context"
	"unicode/utf8"
)

// Segment splits text into utterances. The spans are in document order, do not
// overlap, start and end with a non-space character and on rune boundaries, and
// together cover every non-space character of text. Segment takes linear time and
// treats each byte of invalid UTF-8 as one character. A Stream returns the same
// utterances for a text that arrives in pieces.
//
// When ctx is done first, Segment stops within a bounded amount of work and
// returns no spans and the error of ctx; it returns no other error.
func Segment(ctx context.Context, text string) ([]Span, error) {
	s := newScanner(ctx, text)
	s.blocks()
	return s.result()
}

// scanner walks a text once: blocks by line structure, sentences in blocks. The text
// may grow until ended is set.
type scanner struct {
	progress
	horizon
	layoutState
	text   string
	seen   int  // end of the text so far without a character that is cut
	known  int  // end of the last character before seen that is not white space
	ended  bool // no more text follows
	out    []Span
	para   paragraph
	open   bool // the end of the block that is split may move
	header bool // the block that is split ends with the heading of a table
	lead   leadingSpace
	marks  Span // the reference marks that were found last
	beyond lookahead
}

// newScanner returns a scanner of a text that is complete unless its caller says otherwise.
func newScanner(ctx context.Context, text string) *scanner {
	s := &scanner{progress: progress{ctx: ctx, err: ctx.Err()}, text: text, ended: true, out: make([]Span, 0, len(text)/80+1)}
	s.afterBlank, s.lead.from = true, -1
	s.para.lines = make([]proseLine, 0, min(1+len(text)/64, maxPending/4))
	return s
}

func (s *scanner) result() ([]Span, error) {
	if s.err != nil {
		return nil, s.err
	}
	return s.out, nil
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
		n := spaceAt(text[span.Start:span.End])
		if n == 0 {
			break
		}
		span.Start += n
	}
	span.End = trimEnd(text, span)
	return span
}

// trimEnd returns the end of span without trailing white space.
func trimEnd(text string, span Span) int {
	for span.Start < span.End {
		if c := text[span.End-1]; c < utf8.RuneSelf {
			if !asciiSpace(c) {
				break
			}
			span.End--
			continue
		}
		r, n := utf8.DecodeLastRuneInString(text[span.Start:span.End])
		if !wideSpace(r) {
			break
		}
		span.End -= n
	}
	return span.End
}
