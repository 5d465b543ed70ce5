package segmenter

import (
	"context"
	"strings"
	"unicode/utf8"
)

// Stream segments a text that arrives in pieces. What it returns is, in order, what
// Segment returns for the whole text, however the text is cut into pieces. The zero
// value is ready to use. It is not safe for concurrent use.
//
// An utterance is returned as soon as the rules have decided where it ends: in prose
// after the first character or the first words of the next sentence, at the end of a
// line after the first word of the next line, and immediately after a blank line. At most
// they need 8 KiB after the utterance, not counting white space, and 1/64 of the length
// of the utterance and of the white space after it. They need that much only for lines
// that an editor may have wrapped, of which they read up to 8 more, and for indented
// lines, of which 8 decide whether they are code.
//
// The time is linear in the text, also for pieces of one byte. The memory is
// proportional to the text that has not been returned yet.
type Stream struct {
	scan *scanner
	text strings.Builder // from base on; scan.text is a view of it
	base int             // offset of the text in the whole text
}

// Feed appends piece, which may start or end inside a character, to the text, and
// returns the utterances that no later text can change, as spans of the whole text. Its
// only error is that of ctx, after which the stream cannot be used any more.
func (s *Stream) Feed(ctx context.Context, piece string) ([]Span, error) {
	return s.feed(ctx, piece, false)
}

// Close ends the text and returns the remaining utterances. Its only error is that of
// ctx.
func (s *Stream) Close(ctx context.Context) ([]Span, error) {
	return s.feed(ctx, "", true)
}

func (s *Stream) feed(ctx context.Context, piece string, end bool) ([]Span, error) {
	if s.scan == nil {
		s.scan = newScanner(ctx, "")
	}
	scan := s.scan
	scan.ctx, scan.err, scan.ended = ctx, ctx.Err(), end
	s.text.WriteString(piece)
	scan.grow(s.text.String())
	scan.blocks()
	if !end {
		scan.split(true)
	}
	if scan.err != nil {
		return nil, scan.err
	}
	out := s.take(end)
	s.compact()
	return out, nil
}

// take returns the utterances of the scanner that no later text can change.
func (s *Stream) take(end bool) []Span {
	scan := s.scan
	n := len(scan.out)
	if !end && n > 0 && scan.mayExtend() {
		n--
	}
	if n == 0 {
		return nil
	}
	out := make([]Span, n)
	for i, span := range scan.out[:n] {
		out[i] = Span{s.base + span.Start, s.base + span.End}
	}
	scan.out = scan.out[:copy(scan.out, scan.out[n:])]
	return out
}

// leftContext is at least what rules read before the open utterance, in bytes.
const leftContext = 256

// compact drops the text that is not needed any more, once that is most of it.
func (s *Stream) compact() {
	drop := s.scan.oldest() - leftContext
	if drop <= 0 || drop < s.text.Len()/2 {
		return
	}
	rest := s.scan.text[drop:]
	s.text = strings.Builder{}
	s.text.Grow(2*len(rest) + leftContext)
	s.text.WriteString(rest)
	s.base += drop
	s.scan.drop(drop, s.text.String())
}

// grow replaces the text by a longer one that starts with it.
func (s *scanner) grow(text string) {
	s.text = text
	end := len(text)
	if !s.ended {
		end -= cutCharacter(text)
	}
	if known := trimEnd(text, Span{s.seen, end}); known > s.seen {
		s.known = known
	}
	s.seen = end
}

// cutCharacter returns how many bytes at the end of text are the start of a character
// that more bytes may complete.
func cutCharacter(text string) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if at := len(text) - n; utf8.RuneStart(text[at]) {
			if utf8.FullRuneInString(text[at:]) {
				return 0
			}
			return n
		}
	}
	return 0
}
