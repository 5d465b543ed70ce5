package segmenter

// oldest returns the start of the text that the scan still needs, but for a few bytes
// before it.
func (s *scanner) oldest() int {
	at := len(s.text)
	if !s.para.open {
		at = s.at
	}
	if s.inside != prose {
		at = min(at, s.verbatim.start)
	}
	if s.para.pending() {
		at = min(at, s.para.from)
	}
	if len(s.out) > 0 {
		at = min(at, s.out[0].Start)
	}
	return at
}

// drop replaces the text by text, which lacks the first n bytes. Positions in them
// become negative; they are not read any more.
func (s *scanner) drop(n int, text string) {
	p := &s.para
	for i := range p.lines {
		s.measure(&p.lines[i])
	}
	s.text = text
	shift := func(positions ...*int) {
		for _, at := range positions {
			*at -= n
		}
	}
	shift(&s.known, &s.seen, &s.at, &s.searched, &s.verbatim.start, &s.verbatim.end)
	s.retry.shift(n)
	shift(&p.from, &p.body, &p.i, &p.trial.at)
	p.cursor.retry.shift(n)
	p.trial.retry.shift(n)
	for i := range p.lines {
		l := &p.lines[i]
		shift(&l.start, &l.text, &l.end, &l.next, &l.body, &l.counted, &l.searched)
		if l.pipe >= 0 {
			l.pipe -= n
		}
	}
	for i := range s.out {
		shift(&s.out[i].Start, &s.out[i].End)
	}
	s.lead, s.marks, s.beyond = leadingSpace{from: -1}, Span{}, lookahead{after: -1}
}
