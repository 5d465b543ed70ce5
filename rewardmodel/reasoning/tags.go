package reasoning

import "strings"

// maxTicks is the maximum run of backticks or tildes that opens code. The bound
// keeps the search for closing runs linear.
const maxTicks = 8

// tagScanner finds tags outside of code in a text that may grow. It reads the text once,
// from front to back, apart from searches that fail, of which there are at most a few for
// each length of a run, and from fences that are not closed.
type tagScanner struct {
	text  string
	final bool // the text does not grow any more
	solid int  // the end of text without trailing backticks, whose run may grow
	at    int  // start of what is not scanned yet: a line, or the rest of one after a tag
	line  line // at at
	clear int  // there is no tag before it that next has not considered

	// Of an open fence at at:
	fence line // the line that may close it; zero: there is no open fence
	mark  byte
	count int
	open  [256]int // by mark: fences of at least so many marks are never closed; 0: unknown

	// Of the line at at, if it is not a fence:
	inline   int                // it is scanned up to here
	ticks    int                // length of the run of backticks at inline that is not closed yet; 0: none
	closer   int                // no run before it closes that one
	unclosed [maxTicks + 1]bool // by length: such runs are not closed in the rest of the line
}

// extend sets the text, which begins with the former one.
func (s *tagScanner) extend(text string, final bool) {
	if solid := len(strings.TrimRight(text[len(s.text):], "`")); solid > 0 {
		s.solid = len(s.text) + solid
	}
	s.text, s.final = text, final
}

// jump continues at a later byte.
func (s *tagScanner) jump(at int) {
	s.at, s.fence, s.ticks, s.unclosed = at, line{}, 0, [maxTicks + 1]bool{}
	s.inline = max(s.inline, at)
}

// next returns where the next tag begins that is certainly not in code.
func (s *tagScanner) next() (tag int, opens, found bool) {
	if s.final && !strings.Contains(s.text[s.at:], "think>") {
		return 0, false, false
	}
	for s.at < len(s.text) {
		s.line.start = s.at
		if !s.line.complete(s.text, s.final) {
			if mayOpenFence(s.text[s.at:]) {
				return 0, false, false
			}
			return s.nextInline(s.text[:s.solid], false)
		}
		switch after, known := s.fenced(); {
		case !known:
			return 0, false, false
		case after > s.at:
			s.jump(after)
			continue
		}
		if tag, opens, found := s.nextInline(s.text[:s.line.end], true); found {
			return tag, opens, true
		}
		s.jump(s.line.end)
	}
	return 0, false, false
}

// safe returns the end of the text that has no tag that may still be outside of code, nor
// the beginning of one.
func (s *tagScanner) safe() int {
	if s.final {
		return len(s.text)
	}
	for s.clear = max(s.clear, s.inline); ; s.clear++ {
		i := strings.IndexByte(s.text[s.clear:], '<')
		if i < 0 {
			s.clear = len(s.text)
			return s.clear
		}
		s.clear += i
		if rest := s.text[s.clear:]; isTag(rest) || startsTag(rest) {
			return s.clear
		}
	}
}

func isTag(text string) bool {
	return strings.HasPrefix(text, thinkOpen) || strings.HasPrefix(text, thinkClose)
}

// startsTag reports whether text may become a tag.
func startsTag(text string) bool {
	return strings.HasPrefix(thinkOpen, text) || strings.HasPrefix(thinkClose, text)
}

// fenced returns the end of the code fence that the line opens, or at when it opens none
// that is closed. It is not known while the text may still close it.
func (s *tagScanner) fenced() (after int, known bool) {
	if s.fence == (line{}) {
		mark, count, _ := fence(s.text[s.at:s.line.end])
		if count == 0 || s.open[mark] > 0 && count >= s.open[mark] {
			return s.at, true
		}
		s.mark, s.count, s.fence = mark, count, line{start: s.line.end}
	}
	for s.fence.complete(s.text, s.final) {
		if m, n, bare := fence(s.text[s.fence.start:s.fence.end]); m == s.mark && n >= s.count && bare {
			return s.fence.end, true
		}
		s.fence.start = s.fence.end
	}
	if s.final {
		s.open[s.mark] = s.count
		return s.at, true
	}
	return s.at, false
}

// nextInline is next for the line at the end of text, which is not a fence. It continues
// where it stopped before the line became longer; complete reports that it does not.
func (s *tagScanner) nextInline(text string, complete bool) (tag int, opens, found bool) {
	for s.inline = max(s.inline, s.at); s.inline < len(text); {
		if s.ticks > 0 {
			if s.closeTicks(text) {
				continue
			}
			if !complete {
				break
			}
			s.unclosed[s.ticks] = true
			s.inline, s.ticks = s.inline+s.ticks, 0
			continue
		}
		i := strings.IndexAny(text[s.inline:], "<`")
		if i < 0 {
			s.inline = len(text)
			break
		}
		s.inline += i
		rest := text[s.inline:]
		if rest[0] == '`' {
			run := len(rest) - len(strings.TrimLeft(rest, "`"))
			if run > maxTicks || s.unclosed[run] {
				s.inline += run
			} else {
				s.ticks, s.closer = run, s.inline+run
			}
			continue
		}
		if isTag(rest) {
			return s.inline, strings.HasPrefix(rest, thinkOpen), true
		}
		if !complete && startsTag(rest) {
			break
		}
		s.inline++
	}
	return 0, false, false
}

// closeTicks looks for the run that closes the open one, and continues after it.
func (s *tagScanner) closeTicks(text string) bool {
	for s.closer < len(text) {
		i := strings.IndexByte(text[s.closer:], '`')
		if i < 0 {
			s.closer = len(text)
			return false
		}
		s.closer += i
		run := len(text[s.closer:]) - len(strings.TrimLeft(text[s.closer:], "`"))
		s.closer += run
		if run == s.ticks {
			s.inline, s.ticks = s.closer, 0
			return true
		}
	}
	return false
}
