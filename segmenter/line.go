package segmenter

import "strings"

// line is one line of the text, without its line break.
type line struct {
	start    int  // first byte
	text     int  // first byte after white space and block quote markers
	end      int  // after the last byte that is not white space
	next     int  // start of the next line
	tabs     int  // columns of white space before the text
	quote    int  // depth of block quotes
	body     int  // first byte of prose: after a list marker, else text
	complete bool // its end is known
}

const (
	// maxLine bounds, in bytes, how much of a line decides what it is.
	maxLine = 1 << 10
	// maxQuote is the maximum depth of block quotes.
	maxQuote = 32
)

func (l line) blank() bool { return l.text >= l.end }

// lineEnd finds the end of the line at s.at, or of what is known of it.
func (s *scanner) lineEnd() line {
	l := line{start: s.at, text: s.at, end: len(s.text), next: len(s.text), complete: true}
	n := strings.IndexByte(s.text[s.searched:], '\n')
	switch {
	case n >= 0:
		l.end, l.next = s.searched+n, s.searched+n+1
	case !s.ended:
		l.end, l.complete = max(s.at, s.known), false
	}
	s.charge(l.next - s.searched)
	if s.searched = len(s.text); l.complete {
		s.searched = s.at
		l.end = trimEnd(s.text, Span{max(0, l.start), l.end}) // the start may have been dropped
	}
	return l
}

// lineStart reads the white space and the quote markers at the start of l.
func (s *scanner) lineStart(l *line) {
	for l.text < l.end && s.indents(l, s.text[l.text]) {
		l.text++
	}
	l.body = l.text
	s.charge(l.text - l.start)
}

// indents reports whether c, the next character of l, is white space or the marker of a
// quote before its text.
func (s *scanner) indents(l *line, c byte) bool {
	switch {
	case c == ' ':
		l.tabs++
	case c == '\t':
		l.tabs += 4 - l.tabs%4
	case c == '>' && l.tabs < codeIndent && l.quote < maxQuote && s.quoteMarker(l):
		l.quote++
		l.tabs = 0
	default:
		return false
	}
	return true
}

// quoteMarker distinguishes the ">" of a block quote from a comparison, ">100" or
// ">=".
func (s *scanner) quoteMarker(l *line) bool {
	if s.past(l.text+1, l.end) {
		return true
	}
	c := s.text[l.text+1]
	return c != '=' && !isDigit(c)
}
