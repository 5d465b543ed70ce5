package segmenter

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// wrap identifies the line breaks of a paragraph that an editor or mail program
// inserted only because the next word did not fit.
type wrap struct {
	s         *scanner
	lines     []line
	width     int  // columns of the widest line
	filled    bool // no line but the last had room for the next word
	lowercase bool // written without uppercase letters, as in chat
}

const (
	narrowWrap = 45  // columns; narrower text breaks its lines on purpose
	sureWrap   = 60  // columns; a single break is a wrap from here on
	wideWrap   = 160 // columns; no editor wraps later than this
)

func (s *scanner) wrapOf(lines []line) wrap {
	w := wrap{s: s, lines: lines, filled: true}
	if len(lines) < 2 {
		return w
	}
	for _, l := range lines {
		w.width = max(w.width, s.columns(l))
	}
	if w.width < narrowWrap || w.width > wideWrap {
		return w
	}
	for i := range len(lines) - 1 {
		w.filled = w.filled && w.full(i)
	}
	first, _ := utf8.DecodeRuneInString(s.text[lines[0].body:])
	w.lowercase = unicode.IsLower(first) && lines[0].body == lines[0].text // list items often start with a lowercase letter
	return w
}

func (s *scanner) columns(l line) int {
	s.charge(l.end - l.text)
	return utf8.RuneCountInString(s.text[l.text:l.end])
}

// full reports whether line i had no room for the first word of the next.
func (w *wrap) full(i int) bool {
	next := w.lines[i+1]
	word, _, _ := strings.Cut(w.s.text[next.text:next.end], " ")
	w.s.charge(len(word))
	return w.s.columns(w.lines[i])+1+utf8.RuneCountInString(word) > w.width
}

// joins reports whether line i+1 continues the sentence of line i.
func (w *wrap) joins(i int) bool {
	if w.width < narrowWrap || w.width > wideWrap || w.hardBreak(i) || !w.full(i) {
		return false
	}
	last, _ := utf8.DecodeLastRuneInString(w.s.text[:w.lines[i].end])
	next, _ := utf8.DecodeRuneInString(w.s.text[w.lines[i+1].text:])
	if last == ':' || spaceless(last) || spaceless(next) {
		return false
	}
	if w.filled && len(w.lines) > 2 {
		return true
	}
	return !w.lowercase && !unicode.IsUpper(next) && w.width >= sureWrap
}

// hardBreak reports whether line i ends in Markdown's mark for a line break: a
// backslash or two spaces.
func (w *wrap) hardBreak(i int) bool {
	l := w.lines[i]
	return w.s.text[l.end-1] == '\\' || strings.HasPrefix(w.s.text[l.end:l.next], "  ")
}
