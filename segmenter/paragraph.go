package segmenter

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// paragraph has the lines of prose that are not completely split into utterances yet.
type paragraph struct {
	wrap
	cursor
	lines []proseLine
	head  int  // the line of the cursor; the lines before it are done
	last  int  // lines[head:last+1] are joined
	open  bool // the last line is incomplete
	label bool // the last line may start with the label of a dialogue, so that it is not in wrap yet
	trial trial
}

// trial is the attempt to end a sentence at a line break that may be a wrap.
type trial struct {
	at    int // of the cursor
	retry retry
}

// maxPending is the number of lines that a paragraph collects before it is split, to
// bound its memory.
const maxPending = 64

func (p *paragraph) pending() bool { return p.head < len(p.lines) }

// start puts the cursor at the start of a line.
func (p *paragraph) start(line int) {
	l := &p.lines[line]
	p.head, p.last = line, line
	p.cursor = cursor{from: l.start, body: l.body, i: l.body, fresh: true}
}

// addLine starts the next line of the paragraph.
func (s *scanner) addLine(l line, label bool) {
	p := &s.para
	if p.head > len(p.lines)/2 {
		n := copy(p.lines, p.lines[p.head:])
		p.lines, p.last, p.head = p.lines[:n], p.last-p.head, 0
	}
	p.lines = append(p.lines, proseLine{counted: l.text, searched: l.text, pipe: -1})
	p.label = label && p.wrap.lines > 0
	if !p.label {
		s.admit(l)
	}
	s.extendLine(l)
	if len(p.lines) == 1 {
		p.start(0)
	}
}

// admit counts the last line, l, as one of the paragraph.
func (s *scanner) admit(l line) {
	w := &s.para.wrap
	if w.lines == 0 {
		first, _ := utf8.DecodeRuneInString(s.text[l.body:l.end])
		*w = wrap{need: math.MaxInt, lowercase: unicode.IsLower(first) && l.body == l.text} // list items often start with a lowercase letter
	}
	w.lines++
}

// extendLine replaces the last line by l, the same line with more text.
func (s *scanner) extendLine(l line) {
	p := &s.para
	n := len(p.lines)
	last := &p.lines[n-1]
	last.line = l
	if (p.label || p.wrap.lines > 1) && p.width <= wideWrap {
		before := &p.lines[n-2]
		s.measure(before)
		p.width = max(p.width, before.columns)
		s.measure(last)
		if !p.label {
			p.width = max(p.width, last.columns)
			if last.word > 0 {
				p.need = min(p.need, needed(before, last))
			}
		}
	}
	if p.open = !l.complete; p.open {
		return
	}
	if i := n - 1 - wrapLines; i >= p.last {
		s.decideBreak(i)
	}
	if n-p.head > maxPending {
		s.split(true)
	}
}

// labeled handles the decision whether the last line starts with a label.
func (s *scanner) labeled(label bool) {
	p := &s.para
	p.label = false
	n := len(p.lines)
	if label {
		p.lines[n-2].after = hard
		s.decideBreaks()
		p.wrap = wrap{}
	}
	s.admit(p.lines[n-1].line)
}

// decideBreaks decides the breaks between the lines, which have no others.
func (s *scanner) decideBreaks() {
	for i := max(0, len(s.para.lines)-2-wrapLines); i < len(s.para.lines)-1; i++ {
		s.decideBreak(i)
	}
}

// decideBreak decides the break after a line by the lines so far.
func (s *scanner) decideBreak(i int) {
	p := &s.para
	if l := &p.lines[i]; l.after == undecided {
		l.after = hard
		if s.joins(&p.wrap, l, &p.lines[i+1]) {
			l.after = wrapped
		}
	}
}

// flush splits the rest of the paragraph into sentences and clears it. A line break
// inside it ends an utterance, unless an editor wrapped the line.
func (s *scanner) flush() {
	p := &s.para
	if p.pending() {
		s.decideBreaks()
		s.split(false)
	}
	p.lines, p.head, p.last, p.wrap = p.lines[:0], 0, 0, wrap{}
}

// split splits the lines into sentences, as far as they are decided when open is set:
// more text may follow.
func (s *scanner) split(open bool) {
	p := &s.para
	for p.pending() && s.err == nil {
		for p.last+1 < len(p.lines) && p.lines[p.last].after == wrapped {
			p.last++
		}
		l, end := &p.lines[p.last], p.lines[p.last].end
		s.open = open
		more := p.last+1 < len(p.lines)
		if more {
			if l.after == undecided && s.broken(&p.wrap, l, &p.lines[p.last+1]) {
				l.after = hard
			}
			s.open = l.after == undecided
		}
		if !s.sentences(end) {
			if !more || !s.endsAtBreak() {
				return
			}
			l.after = hard
			continue
		}
		if s.open {
			return
		}
		s.emit(p.from, end)
		if !more {
			p.head = len(p.lines)
			return
		}
		p.start(p.last + 1)
	}
}

// endsAtBreak reports whether the terminator at the cursor ends a sentence at the end
// of the joined lines, whether or not the next line is joined too.
func (s *scanner) endsAtBreak() bool {
	p := &s.para
	end, next := p.lines[p.last].end, p.lines[p.last+1].end
	if p.trial.at != p.i {
		p.trial = trial{at: p.i}
	}
	if p.fresh || !p.trial.retry.due(next) {
		return false
	}
	started := s.bytes
	s.touched = false
	d := s.decide(next)
	if s.touched {
		p.trial.retry.after(next, s.bytes-started)
		return false
	}
	p.trial.retry = math.MaxInt
	return d.cut == end && d.before <= p.from && s.undivided(end)
}

// undivided reports whether text[from:end] after the cursor is one utterance if it ends
// at end. A decision that skips text because of what follows may not skip it then.
func (s *scanner) undivided(end int) bool {
	p := &s.para
	before := p.cursor
	defer func() { p.cursor = before }()
	for p.i < end {
		if !marks[s.text[p.i]] {
			p.i = s.nextMark(p.i, end)
			continue
		}
		d := s.decide(end)
		if d.before > p.from || d.cut > 0 && d.cut != end {
			return false
		}
		p.i = max(d.next, d.cut)
	}
	return true
}

// leaveLine is called when an utterance has ended at text[cut:]. At the end of a line
// the next line starts a sentence as after a hard break, so that such a break need not
// be decided.
func (s *scanner) leaveLine(cut int) {
	p := &s.para
	for p.head < p.last && p.lines[p.head].end < cut {
		p.head++
	}
	if last := p.last; p.head < last && p.lines[p.head].end == cut {
		p.start(p.head + 1)
		p.last = last
	}
}

// tableHeader reports whether the last line can be the heading of a table.
func (s *scanner) tableHeader() bool {
	n := len(s.para.lines)
	if n == 0 {
		return false
	}
	l := &s.para.lines[n-1]
	return l.short() && s.firstPipe(l) >= 0
}

// short reports whether a line is not too long for the heading of a table.
func (l *proseLine) short() bool { return l.end-l.text <= maxLine }

// firstPipe returns the index of the first "|" of a short line, or -1.
func (s *scanner) firstPipe(l *proseLine) int {
	if l.pipe < 0 {
		if n := strings.IndexByte(s.text[l.searched:l.end], '|'); n >= 0 {
			l.pipe = l.searched + n
		}
		s.charge(l.end - l.searched)
		l.searched = l.end
	}
	return l.pipe
}

// inTableHeader reports whether the utterances that d ends are not separate if the last
// line is the heading of a table: from the sentence of the first "|" on, the heading
// is one utterance with the delimiter row below it.
func (s *scanner) inTableHeader(d decision, end int) bool {
	p := &s.para
	l := &p.lines[p.last]
	if p.last+1 < len(p.lines) || !l.short() {
		return false
	}
	cut := d.cut
	if d.before > p.from {
		cut = d.before
	}
	if cut == 0 {
		return false
	}
	next, pipe := s.skipSpace(cut, end), s.firstPipe(l)
	return 0 <= pipe && pipe <= next
}

// flushHeader is flush for a paragraph whose last line is the heading of a table.
func (s *scanner) flushHeader() {
	p := &s.para
	if n := len(p.lines); n > 1 {
		p.lines[n-2].after = hard
	}
	s.header = true
	s.flush()
	s.header = false
}
