package segmenter

import (
	"strings"
	"unicode/utf8"
)

// sentences cuts the block of prose text[start:end]. Stops before body belong
// to a list marker or the like and cut nothing.
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
		if st, ok := s.stopAt(i, end); ok {
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

// nextMark returns the next byte of text[i:end] that is of marks, or a place
// before it after as much text as passes between two looks at the context.
func (s *scanner) nextMark(i, end int) int {
	start := i
	for end = min(end, start+checkEvery); i < end && !marks[s.text[i]]; {
		i++
	}
	s.look(i - start)
	return i
}

// stop is a run of stops and the quotes and brackets that close after it.
type stop struct {
	start, end int // the stops
	after      int // the end of the closing characters
	class      class
	quoted     bool // a closing character ends direct speech
}

// stopAt returns the stop that begins at text[i].
func (s *scanner) stopAt(i, end int) (stop, bool) {
	st := stop{start: i, end: i, after: i}
	dots := 0
	for st.after < end {
		r, n := utf8.DecodeRuneInString(s.text[st.after:end])
		switch c := stopRune(r); {
		case c != none:
			if r == '.' {
				dots++
			}
			st.class = max(st.class, c)
			st.after += n
			st.end = st.after
			continue
		case st.class == none:
			return s.scriptStop(i, end)
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
	s.look(st.after - i)
	if dots > 1 && st.class == period {
		st.class = ellipsis
	}
	return st, st.class != none
}

// spacedDot tells whether text[i:] continues an ellipsis written ". . .".
func (s *scanner) spacedDot(i, end int) bool {
	return i+1 < end && s.text[i+1] == '.' && (i+2 == end || s.text[i+2] == ' ' || s.text[i+2] == '.') &&
		i >= 2 && s.text[i-2] == ' '
}

// scriptStop accepts the ASCII characters that end sentences in one script
// alone: the Greek question mark and the Armenian full stop.
func (s *scanner) scriptStop(i, end int) (stop, bool) {
	r, _ := utf8.DecodeLastRuneInString(s.text[:i])
	c := s.text[i]
	ok := c == ';' && r >= 0x370 && r < 0x400 || c == ':' && r >= 0x530 && r < 0x590
	return stop{start: i, end: i + 1, after: i + 1, class: final}, ok
}

// inlineCode returns the end of the code span that opens at text[i], or of its
// backticks where it does not close soon: what is inside holds no sentences.
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
		s.look(limit - open)
		return i
	}
	s.look(i + at - open)
	return i + at + len(ticks)
}
