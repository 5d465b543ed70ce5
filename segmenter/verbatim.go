package segmenter

import "strings"

// verbatim is a block that contains no sentences: fenced code up to its closing fence
// or the end of the text, display math up to its closing mark or the next blank line,
// indented code up to the next line that is not indented.
type verbatim struct {
	start, end int  // end: of the last line that belongs to it
	mark       byte // that it opened with
	count      int  // how often mark is repeated
	// Of indented code:
	lines, code int  // so far, and those that look like code
	size        int  // of the lines so far, in bytes
	decided     bool // it is code
}

const (
	// codeIndent is the indentation of a code block, in columns.
	codeIndent = 4
	// codeLines is the number of indented lines that decide whether they are code, and
	// codeBytes their size.
	codeLines = 8
	codeBytes = 4 << 10
)

// verbatimKind returns the kind of block that content opens, if it is not indented.
func (s *scanner) verbatimKind(content string) block {
	switch {
	case s.fence(content):
		return fencedCode
	case s.mathMark(content):
		return displayMath
	}
	return prose
}

// verbatimLine handles a line in a verbatim block. It returns false when it needs more
// of it.
func (s *scanner) verbatimLine(l line) bool {
	v := &s.verbatim
	content := s.text[l.text:l.end]
	switch {
	case s.inside == indentedCode:
		return s.indentedLine(l, content)
	case s.inside == displayMath && l.blank():
		s.endVerbatim(v.end)
		return true
	}
	v.end = l.next
	s.goTo(l.next)
	if s.inside == fencedCode && v.closedBy(content) || s.inside == displayMath && strings.HasSuffix(content, mathClose(v.mark)) {
		s.endVerbatim(v.end)
	}
	return true
}

// endVerbatim ends the current block before text[end:].
func (s *scanner) endVerbatim(end int) {
	if s.inside == indentedCode {
		s.endIndented()
		return
	}
	s.emit(s.verbatim.start, end)
	s.goTo(end)
	s.inside, s.plain = prose, false
	s.inTable, s.afterBlank, s.adjacent = false, false, true
}

// fence reports whether content opens a block of code.
func (s *scanner) fence(content string) bool {
	c := content[0]
	if c != '`' && c != '~' {
		return false
	}
	n := leading(content[:min(len(content), maxLine)], c)
	s.past(n, len(content))
	if n < 3 {
		return false
	}
	info := content[n:min(len(content), n+maxLine)]
	if c == '`' && strings.Contains(info, "`") {
		return false
	}
	s.past(maxLine-1, len(info))
	return true
}

// closedBy reports whether a line closes a block of code.
func (v *verbatim) closedBy(content string) bool {
	n := leading(content, v.mark)
	return n >= v.count && n == len(content)
}

// mathMark reports whether content opens display math.
func (s *scanner) mathMark(content string) bool {
	for _, mark := range []string{"$$", `\[`} {
		if strings.HasPrefix(mark, content) {
			s.past(len(mark), len(content))
			return content == mark
		}
	}
	return false
}

// mathClose returns what closes the display math that the mark opens.
func mathClose(mark byte) string {
	if mark == '$' {
		return "$$"
	}
	return `\]`
}

// indentedLine decides whether indented lines look like code rather than like prose, by
// the first of them, and finds the end of the code.
func (s *scanner) indentedLine(l line, content string) bool {
	v := &s.verbatim
	room := codeBytes - v.size
	switch {
	case l.blank():
		s.goTo(l.next)
		return true
	case l.tabs < codeIndent:
		s.endIndented()
		return true
	case !l.complete && (v.decided || len(content) < room):
		return false
	}
	v.end = l.next
	if !v.decided {
		v.lines++
		v.size += len(content)
		if codeLike(content[:min(len(content), room)]) {
			v.code++
		}
		if v.lines == codeLines || len(content) >= room {
			if v.code*2 <= v.lines {
				s.endIndented()
				return true
			}
			v.decided = true
		}
	}
	if l.complete {
		s.goTo(l.next)
	}
	return l.complete
}

// endIndented ends a block of indented lines: code, or prose that is read again.
func (s *scanner) endIndented() {
	v := &s.verbatim
	s.inside = prose
	if s.plain = v.code*2 <= v.lines; s.plain {
		s.goTo(v.start)
		return
	}
	s.emit(v.start, v.end)
	s.goTo(v.end)
	s.adjacent = true
}

func codeLike(content string) bool {
	last := content[len(content)-1]
	return strings.IndexByte(";{}()[]<>=\\", last) >= 0 || strings.Contains(content, "=") ||
		strings.Contains(content, "()") || strings.HasPrefix(content, "$ ")
}

// leading returns how often s repeats c at its start.
func leading(s string, c byte) int {
	n := 0
	for n < len(s) && s[n] == c {
		n++
	}
	return n
}
