package segmenter

// block is a kind of lines that has its own end.
type block uint8

const (
	prose block = iota
	heading
	ruling
	listItem
	tableRow
	delimiterRow
	fencedCode
	displayMath
	indentedCode
)

// layoutState is the state of the scan between two lines.
type layoutState struct {
	at         int   // start of the next line
	retry      retry // of the decision what the line at at is
	searched   int   // there is no line break between at and here
	flushed    bool  // the line at at is known to be no prose, but incomplete
	inside     block // fencedCode, displayMath, indentedCode or else prose
	verbatim   verbatim
	plain      bool // indented lines are known not to be code
	quote      int  // depth of block quotes
	inList     bool
	inTable    bool
	afterBlank bool
	adjacent   bool // nothing separates the next line from the last utterance
}

// blocks iterates over the lines of the text. Code, headings, table rows and
// thematic breaks are utterances; all other lines form paragraphs, which are split
// into sentences. It returns when it needs more text.
func (s *scanner) blocks() {
	for s.err == nil {
		if s.at < len(s.text) {
			if !s.nextLine() {
				return
			}
			continue
		}
		if !s.ended {
			return
		}
		if s.inside == prose {
			s.flush()
			return
		}
		s.endVerbatim(len(s.text))
	}
}

// nextLine reads a line, or what is known of it, and returns false when it needs more
// text.
func (s *scanner) nextLine() bool {
	if !s.para.open && s.text[s.at] == '\n' && s.quote == 0 && s.inside == prose {
		s.charge(1)
		s.flush()
		s.leave(line{next: s.at + 1}, prose)
		s.inTable, s.afterBlank, s.adjacent = false, true, false
		return true
	}
	l := s.lineEnd()
	switch {
	case s.para.open:
		return s.continueLine(l)
	case !l.complete && (l.end <= s.at || s.flushed || s.inside == fencedCode || s.inside == displayMath || !s.retry.due(l.end)):
		return false
	}
	started := s.bytes
	s.touched = false
	s.lineStart(&l)
	undecided := !l.complete && (l.blank() || s.touched)
	if !undecided {
		if s.inside != prose {
			undecided = !s.verbatimLine(l)
		} else {
			undecided = !s.newLine(l)
		}
	}
	if undecided {
		s.retry.after(l.end, s.bytes-started)
	}
	return !undecided
}

// newLine handles a line outside of verbatim blocks. It returns false when it needs
// more of it.
func (s *scanner) newLine(l line) bool {
	if l.quote != s.quote {
		s.flush()
		s.quote = l.quote
	}
	if l.blank() {
		s.flush()
		s.bareQuote(l)
		s.leave(l, prose)
		s.inTable, s.afterBlank = false, true
		return true
	}
	content := s.text[l.text:l.end]
	s.charge(min(len(content), maxLine))
	kind := s.kindOf(&l, content)
	if !l.complete {
		if s.touched {
			return false
		}
		if kind != prose && kind != listItem && kind != indentedCode {
			s.flush()
			s.flushed = true
			return false
		}
	}
	if l.tabs < codeIndent {
		s.plain = false
	}
	switch kind {
	case fencedCode, displayMath, indentedCode:
		s.flush()
		s.inside = kind
		s.verbatim = verbatim{start: l.start, end: l.next, mark: content[0], count: leading(content[:min(len(content), maxLine)], content[0])}
		if kind != indentedCode {
			s.leave(l, kind)
		}
		return true
	case delimiterRow:
		s.delimiterRow(l)
	case tableRow, heading:
		s.flush()
		s.emit(l.start, l.end)
	case ruling:
		s.rule(l, content)
	case listItem:
		s.flush()
		s.addLine(l, false)
	case prose:
		s.touched = false
		label := s.dialogueLabel(content)
		unknown := !l.complete && s.touched
		if label && !unknown {
			s.flush()
		}
		s.addLine(l, unknown)
	}
	if s.inTable = kind == tableRow || kind == delimiterRow; !s.inTable {
		s.inList = kind == listItem || s.inList && !(s.afterBlank && l.tabs < 2)
	}
	s.afterBlank, s.adjacent = false, true
	if !l.complete {
		return false
	}
	s.leave(l, prose)
	return true
}

// leave continues after line l, inside a block of the given kind.
func (s *scanner) leave(l line, inside block) {
	s.goTo(l.next)
	s.inside = inside
}

func (s *scanner) goTo(at int) {
	s.at, s.searched, s.flushed, s.retry = at, at, false, 0
}

// continueLine adds more of its last line to the paragraph.
func (s *scanner) continueLine(l line) bool {
	p := &s.para
	last := p.lines[len(p.lines)-1].line
	last.end, last.next, last.complete = l.end, l.next, l.complete
	if p.label {
		s.touched = false
		label := s.dialogueLabel(s.text[last.text:last.end])
		if last.complete || !s.touched {
			s.labeled(label)
		}
	}
	s.extendLine(last)
	if last.complete {
		s.leave(last, prose)
	}
	return last.complete
}

// kindOf returns what a line is, which is not final if s.touched is set and l is
// incomplete. For a list item it sets l.body.
func (s *scanner) kindOf(l *line, content string) block {
	open := func() bool { return s.touched && !l.complete }
	if kind := s.verbatimKind(content); kind != prose || open() {
		return kind
	}
	if !s.inList && s.afterBlank && l.tabs >= codeIndent && !s.plain {
		return indentedCode
	}
	if kind := s.tableKind(content); kind != prose || open() {
		return kind
	}
	if s.heading(content) || open() {
		return heading
	}
	if s.rulingLine(content) || open() {
		return ruling
	}
	if n := s.listMarker(content); n > 0 {
		l.body = l.text + n
		return listItem
	}
	return prose
}

// bareQuote adds the ">" of an empty line in a block quote, which is not an
// utterance, to the preceding utterance.
func (s *scanner) bareQuote(l line) {
	if n := len(s.out); l.quote > 0 && s.adjacent && n > 0 {
		s.out[n-1].End = l.end
		return
	}
	s.emit(l.start, l.end)
	s.adjacent = l.quote > 0
}

// rule handles a line of dashes or similar: the underline of a heading when it
// follows a single line of text, else an utterance that separates others.
func (s *scanner) rule(l line, content string) {
	p := &s.para
	underline := p.wrap.lines == 1 && (content[0] == '=' || content[0] == '-')
	if underline {
		last := &p.lines[len(p.lines)-1]
		underline = last.body == last.text
	}
	s.flush()
	if n := len(s.out); underline && n > 0 {
		s.out[n-1].End = l.end
		return
	}
	s.emit(l.start, l.end)
}

// delimiterRow handles the delimiter row of a table, which is part of the utterance
// above it.
func (s *scanner) delimiterRow(l line) {
	s.flushHeader()
	if n := len(s.out); n > 0 {
		s.out[n-1].End = l.end
	}
}

// mayExtend reports whether the next line may extend the last utterance.
func (s *scanner) mayExtend() bool {
	return s.adjacent && !s.flushed && s.inside == prose && !s.para.pending()
}
