package segmenter

import "strings"

// line is one line of the text, without its line break.
type line struct {
	start int // first byte
	text  int // first byte after white space and block quote markers
	end   int // after the last byte that is not white space
	next  int // start of the next line
	tabs  int // columns of white space before the text
	quote int // depth of block quotes
	body  int // first byte of prose: after a list marker, else text
}

func (l line) blank() bool { return l.text >= l.end }

// blocks iterates over the lines of the text. Code, headings, table rows and
// thematic breaks are utterances; all other lines form paragraphs, which are split
// into sentences.
func (s *scanner) blocks() {
	inList, inTable, afterBlank := false, false, true
	quote, prose := 0, 0 // up to prose, indented lines are known not to be code
	for at := 0; at < len(s.text) && s.err == nil; {
		if s.text[at] == '\n' && quote == 0 {
			s.charge(1)
			s.flush()
			at, inTable, afterBlank = at+1, false, true
			continue
		}
		l := s.lineAt(at)
		at = l.next
		content := s.text[l.text:l.end]
		if l.quote != quote {
			s.flush()
			quote = l.quote
		}
		if l.blank() {
			s.flush()
			s.bareQuote(l)
			inTable, afterBlank = false, true
			continue
		}
		if end, ok := s.verbatim(l, content); ok {
			s.flush()
			s.emit(l.start, end)
			at, inTable, afterBlank = end, false, false
			continue
		}
		if !inList && afterBlank && l.tabs >= codeIndent && l.start >= prose {
			end, ok := s.indentedCode(l)
			if ok {
				s.emit(l.start, end)
				at = end
				continue
			}
			prose = end
		}
		inTable = s.tableLine(l, content, inTable)
		if inTable {
			afterBlank = false
			continue
		}
		marker := listMarker(content)
		switch {
		case heading(content):
			s.flush()
			s.emit(l.start, l.end)
		case rulingLine(content):
			s.rule(l, content)
		case marker > 0:
			s.flush()
			l.body = l.text + marker
			s.para = append(s.para, l)
		default:
			if dialogueLabel(content) {
				s.flush()
			}
			if len(s.para) == maxParagraphLines {
				s.flush()
			}
			s.para = append(s.para, l)
		}
		inList = marker > 0 || inList && !(afterBlank && l.tabs < 2)
		afterBlank = false
	}
	s.flush()
}

// maxParagraphLines bounds the memory of a paragraph.
const maxParagraphLines = 4096

// bareQuote adds the ">" of an empty line in a block quote, which is not an
// utterance, to the preceding utterance.
func (s *scanner) bareQuote(l line) {
	if n := len(s.out); l.quote > 0 && n > 0 {
		s.out[n-1].End = l.end
		return
	}
	s.emit(l.start, l.end)
}

// lineAt reads the line that starts at text[start:].
func (s *scanner) lineAt(start int) line {
	l := line{start: start, text: start, end: len(s.text), next: len(s.text)}
	if n := strings.IndexByte(s.text[start:], '\n'); n >= 0 {
		l.end, l.next = start+n, start+n+1
	}
	s.charge(l.next - start)
	if end := trimEnd(s.text, Span{start, l.end}); end > start {
		l.end = end
	}
	for ; l.text < l.end; l.text++ {
		switch c := s.text[l.text]; {
		case c == ' ':
			l.tabs++
		case c == '\t':
			l.tabs += 4 - l.tabs%4
		case c == '>' && l.tabs < codeIndent && s.quoteMarker(l):
			l.quote++
			l.tabs = 0
		default:
			l.body = l.text
			return l
		}
	}
	l.body = l.text
	return l
}

// quoteMarker distinguishes the ">" of a block quote from a comparison, ">100" or
// ">=".
func (s *scanner) quoteMarker(l line) bool {
	if l.text+1 >= l.end {
		return true
	}
	c := s.text[l.text+1]
	return c != '=' && !isDigit(c)
}

// rule handles a line of dashes or similar: the underline of a heading when it
// follows a single line of text, else an utterance that separates others.
func (s *scanner) rule(l line, content string) {
	if len(s.para) == 1 && (content[0] == '=' || content[0] == '-') && s.para[0].body == s.para[0].text {
		s.emit(s.para[0].start, l.end)
		s.para = s.para[:0]
		return
	}
	s.flush()
	s.emit(l.start, l.end)
}

// flush splits the current paragraph into sentences and clears it. A line break
// inside it ends an utterance, unless an editor wrapped the line.
func (s *scanner) flush() {
	if len(s.para) == 0 {
		return
	}
	w := s.wrapOf(s.para)
	for first := 0; first < len(s.para) && s.err == nil; {
		last := first
		for last+1 < len(s.para) && w.joins(last) {
			last++
		}
		s.sentences(s.para[first].start, s.para[first].body, s.para[last].end)
		first = last + 1
	}
	s.para = s.para[:0]
}
