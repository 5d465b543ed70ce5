package segmenter

import (
	"strings"
	"unicode/utf8"
)

// sentences splits the block of prose text[start:end]. Terminators before body
// belong to a list marker or similar and do not end a sentence.
func (s *scanner) sentences(start, body, end int) {
	from := start
	if cut := s.signOff(body, end); cut > 0 {
		s.emit(from, cut)
		from, body = cut, cut
	}
	for i := body; i < end && s.err == nil; {
		c := s.text[i]
		if !marks[c] {
			i = s.nextMark(i, end)
			continue
		}
		if c == '`' {
			i = s.inlineCode(i, end)
			continue
		}
		cut := 0
		if st, ok := s.terminatorAt(i, end); ok {
			i = st.after
			cut = s.cut(max(from, body), st, end)
		} else if c < utf8.RuneSelf {
			var before int
			before, cut, i = s.layout(max(from, body), body, i, end)
			if before > from {
				s.emit(from, before)
				from = before
			}
		} else {
			r, n := utf8.DecodeRuneInString(s.text[i:end])
			if r == '—' {
				cut = s.brokenOff(max(from, body), i, i+n, end)
			}
			i += n
		}
		if cut > 0 {
			s.emit(from, cut)
			from, i = cut, max(i, cut)
			if off := s.signOff(from, end); off > 0 {
				s.emit(from, off)
				from, i = off, max(i, off)
			}
		}
	}
	s.emit(from, end)
}

// nextMark returns the index of the next byte of text[i:end] that is in marks, or
// an earlier index when the context must be checked first.
func (s *scanner) nextMark(i, end int) int {
	start := i
	for end = min(end, start+checkEvery); i < end && !marks[s.text[i]]; {
		i++
	}
	s.charge(i - start)
	return i
}

// terminator is a run of terminating characters and the closing quotes and
// brackets after it.
type terminator struct {
	start, end int // the terminating characters
	after      int // the end of the closing characters
	class      class
	quoted     bool // a closing character ends direct speech
}

// terminatorAt returns the terminator that starts at text[i].
func (s *scanner) terminatorAt(i, end int) (terminator, bool) {
	st := terminator{start: i, end: i, after: i}
	dots := 0
	for st.after < end {
		r, n := utf8.DecodeRuneInString(s.text[st.after:end])
		switch c := terminatorClass(r); {
		case c != none:
			if r == '.' {
				dots++
			}
			st.class = max(st.class, c)
			st.after += n
			st.end = st.after
			continue
		case st.class == none:
			return s.scriptTerminator(i, end)
		case closes(r):
			st.quoted = st.quoted || quotes(r)
			st.after += n
			continue
		case r == ' ' && dots > 0 && st.after == st.end && s.spacedDot(st.after, end):
			st.after++
			continue
		}
		break
	}
	s.charge(st.after - i)
	if dots > 1 && st.class == period {
		st.class = ellipsis
	}
	return st, st.class != none
}

// spacedDot reports whether text[i:] continues an ellipsis written ". . .".
func (s *scanner) spacedDot(i, end int) bool {
	return i+1 < end && s.text[i+1] == '.' && (i+2 == end || s.text[i+2] == ' ' || s.text[i+2] == '.') &&
		i >= 2 && s.text[i-2] == ' '
}

// scriptTerminator accepts the ASCII characters that end sentences only in one
// script: the Greek question mark and the Armenian full stop.
func (s *scanner) scriptTerminator(i, end int) (terminator, bool) {
	r, _ := utf8.DecodeLastRuneInString(s.text[:i])
	c := s.text[i]
	ok := c == ';' && r >= 0x370 && r < 0x400 || c == ':' && r >= 0x530 && r < 0x590
	return terminator{start: i, end: i + 1, after: i + 1, class: final}, ok
}

// inlineCode returns the end of the code span that opens at text[i], or of its
// backticks when no closing ones are near: code contains no sentences.
func (s *scanner) inlineCode(i, end int) int {
	const longest = 200 // bytes; bounds the work for text full of backticks
	open := i
	for i < end && s.text[i] == '`' {
		i++
	}
	ticks := s.text[open:i]
	limit := min(end, i+longest)
	at := strings.Index(s.text[i:limit], ticks)
	if at < 0 {
		s.charge(limit - open)
		return i
	}
	s.charge(i + at - open)
	return i + at + len(ticks)
}
