package segmenter

import (
	"strings"
	"unicode/utf8"
)

// cursor is the position of the scan in a paragraph.
type cursor struct {
	from  int   // start of the current sentence
	body  int   // start of the prose: terminators before it belong to a list marker or similar
	i     int   // every mark before has been examined
	fresh bool  // a sign-off may start at from
	retry retry // of the decision at i, by the end of the block
}

// sentences continues to split the joined lines of the current paragraph, which end at
// text[end]. In a block that may grow it stops before the first decision that depends
// on what follows, and returns false.
func (s *scanner) sentences(end int) bool {
	c := &s.para.cursor
	if s.open && !c.retry.due(end) {
		return false
	}
	for s.err == nil && (c.fresh || c.i < end) {
		if !c.fresh && !marks[s.text[c.i]] {
			c.i = s.nextMark(c.i, end)
			continue
		}
		started := s.bytes
		s.touched = false
		d := s.decide(end)
		if s.open && (s.inTableHeader(d, end) || s.touched) {
			c.retry.after(end, s.bytes-started)
			return false
		}
		if s.header && s.inTableHeader(d, end) {
			return true
		}
		c.i, c.fresh = d.next, false
		if d.before > c.from {
			s.emit(c.from, d.before)
			c.from = d.before
		}
		if d.cut > 0 {
			s.emit(c.from, d.cut)
			c.from, c.i, c.fresh = d.cut, max(c.i, d.cut), !d.signOff
			s.leaveLine(d.cut)
		}
	}
	return true
}

// decision is what the scan does at a mark.
type decision struct {
	before, cut int  // ends of utterances there, or 0
	next        int  // where to continue
	signOff     bool // cut is the end of a sign-off
}

// decide examines the position of the cursor, in a block that ends at text[end].
func (s *scanner) decide(end int) decision {
	c := &s.para.cursor
	i, from := c.i, max(c.from, c.body)
	if c.fresh {
		return decision{cut: s.signOff(from, end), next: i, signOff: true}
	}
	if s.text[i] == '`' {
		return decision{next: s.inlineCode(i, end)}
	}
	if st, ok := s.terminatorAt(i, end); ok {
		return decision{cut: s.cut(from, st, end), next: st.after}
	}
	if s.text[i] < utf8.RuneSelf {
		before, cut, next := s.layout(from, c.body, i, end)
		return decision{before: before, cut: cut, next: next}
	}
	r, n := utf8.DecodeRuneInString(s.text[i:end])
	d := decision{next: i + n}
	if r == '—' {
		d.cut = s.brokenOff(from, i, i+n, end)
	}
	return d
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
	for !s.past(st.after, end) {
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
	return i >= 2 && s.text[i-2] == ' ' && s.hasPrefix(i+1, end, ".") &&
		(s.past(i+2, end) || s.text[i+2] == ' ' || s.text[i+2] == '.')
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
	for !s.past(i, end) && s.text[i] == '`' {
		i++
	}
	ticks := s.text[open:i]
	near, complete := s.ahead(i, end, longest)
	at := strings.Index(near, ticks)
	if at < 0 {
		s.touched = s.touched || !complete
		s.charge(i - open + len(near))
		return i
	}
	s.charge(i + at - open)
	return i + at + len(ticks)
}
