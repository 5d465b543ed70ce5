package segmenter

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// lineBreak says whether a line of a paragraph continues on the next line.
type lineBreak uint8

const (
	undecided lineBreak = iota
	hard
	wrapped // an editor or mail program broke the line because the next word did not fit
)

const (
	narrowWrap = 45  // columns; narrower text breaks its lines on purpose
	sureWrap   = 60  // columns; a single break is a wrap from here on
	wideWrap   = 160 // columns; no editor wraps later than this
	wrapLines  = 8   // a line break is decided when so many more lines are complete
)

// proseLine is a line of a paragraph.
type proseLine struct {
	line     // its end grows while its text arrives
	after    lineBreak
	columns  int // of text[text:counted], which ends beyond wideWrap columns
	word     int // columns of the first word, 0 until its end is known
	counted  int
	pipe     int // the first "|" of text[text:searched], or -1
	searched int
}

// measure updates what is derived from the text of l after its end has moved.
func (s *scanner) measure(l *proseLine) {
	from := l.counted
	for l.counted < l.end && l.columns <= wideWrap {
		c, n := s.text[l.counted], 1
		if c >= utf8.RuneSelf {
			_, n = utf8.DecodeRuneInString(s.text[l.counted:l.end])
		}
		if c == ' ' && l.word == 0 {
			l.word = l.columns
		}
		l.columns++
		l.counted += n
	}
	if l.complete && l.word == 0 {
		l.word = l.columns
	}
	s.charge(l.counted - from)
}

// wrap has what the line breaks of a paragraph are decided by.
type wrap struct {
	lines     int  // so far
	width     int  // columns of the widest line
	need      int  // the fewest columns that a line and the first word of the next take
	lowercase bool // written without uppercase letters, as in chat
}

// filled reports that no line but the last had room for the next word.
func (w *wrap) filled() bool { return w.need > w.width }

// needed returns the columns of l and the first word of next, which is known.
func needed(l, next *proseLine) int { return l.columns + 1 + next.word }

// broken reports whether the break between l and next is hard whatever follows. The
// width of a paragraph only grows, so a line that had room for the next word had it in
// the end.
func (s *scanner) broken(w *wrap, l, next *proseLine) bool {
	if w.width > wideWrap || s.brokenByMark(l, next) {
		return true
	}
	width := max(w.width, narrowWrap)
	if next.word > 0 && needed(l, next) <= width {
		return true
	}
	return w.need <= width && (w.lowercase || s.startsUppercase(next))
}

// joins decides whether next continues the sentence of l, by the lines so far.
func (s *scanner) joins(w *wrap, l, next *proseLine) bool {
	if w.width < narrowWrap || w.width > wideWrap || needed(l, next) <= w.width || s.brokenByMark(l, next) {
		return false
	}
	if w.filled() && w.lines > 2 {
		return true
	}
	return !w.lowercase && !s.startsUppercase(next) && w.width >= sureWrap
}

// brokenByMark reports whether l ends in Markdown's mark for a line break, a backslash
// or two spaces, or in a colon, or whether the script has no spaces between words.
func (s *scanner) brokenByMark(l, next *proseLine) bool {
	if s.text[l.end-1] == '\\' || strings.HasPrefix(s.text[l.end:l.next], "  ") {
		return true
	}
	last, _ := utf8.DecodeLastRuneInString(s.text[:l.end])
	first, _ := utf8.DecodeRuneInString(s.text[next.text:next.end])
	return last == ':' || spaceless(last) || spaceless(first)
}

func (s *scanner) startsUppercase(l *proseLine) bool {
	first, _ := utf8.DecodeRuneInString(s.text[l.text:l.end])
	return unicode.IsUpper(first)
}
