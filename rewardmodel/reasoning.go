package rewardmodel

import (
	"strings"

	"assay/segmenter"
)

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
)

// answerParts returns the parts of a response that are not reasoning, in order,
// without the tags around it:
//
//   - <think>...</think> is reasoning, any number of times;
//   - a block that is never closed, as in a rollout that was cut off, reaches to
//     the end;
//   - a closing tag without an opening one ends a block that began before the
//     response (chat templates put <think> at the end of the prompt) or right
//     after the block before (a tag that the reasoning quoted had ended it);
//   - in the answer, a tag inside a closed code fence or between backticks on one
//     line is text. Inside of reasoning the first closing tag counts wherever it
//     is, because reasoning often stops in the middle of a fence.
//
// With ReasoningSkipOpened, a closing tag without an opening one is text.
func answerParts(text string, reasoning Reasoning) []segmenter.Span {
	var parts []segmenter.Span
	f := answerFilter{opened: reasoning == ReasoningSkipOpened}
	for _, p := range f.feed(text, true) {
		if p.Start < p.End {
			parts = append(parts, p.Span)
		}
	}
	return parts
}

// answerPiece is a piece of a part of the answer; see answerFilter.
type answerPiece struct {
	segmenter.Span      // of the text; may be empty
	ends           bool // the part ends with it
	void           bool // the part is not the answer after all, and another one starts; the span is empty
}

// answerFilter divides a text that grows into the parts that answerParts returns. Text
// that is certainly not in a tag is returned immediately, and a tag is held back only
// while it may be in code: behind an open backtick of its line, or in a fence that is
// not closed yet.
type answerFilter struct {
	tagScanner
	inside bool // a block of reasoning
	after  int  // inside: where to look for its end
	sent   int  // the text before is returned, or is not the answer
	// held holds everything back until the first tag or the end of the text, since the
	// text begins in a block of reasoning.
	held   bool
	opened bool // a closing tag without an opening one is text
}

// feed returns what follows what it has returned. text is the whole text so far; final
// reports that it is complete.
func (f *answerFilter) feed(text string, final bool) (pieces []answerPiece) {
	f.extend(text, final)
	for {
		if f.inside {
			i := strings.Index(text[f.after:], thinkClose)
			if i < 0 {
				f.after = max(f.after, len(text)-len(thinkClose)+1)
				return pieces
			}
			f.sent, f.inside = f.after+i+len(thinkClose), false
			f.jump(f.sent)
		}
		tag, opens, found := f.next()
		if !found {
			break
		}
		f.held = false
		if opens {
			pieces = append(pieces, answerPiece{Span: segmenter.Span{Start: f.sent, End: tag}, ends: true})
			f.inside, f.after = true, tag+len(thinkOpen)
			continue
		}
		f.jump(tag + len(thinkClose))
		if f.opened {
			continue
		}
		f.sent = tag + len(thinkClose)
		pieces = append(pieces, answerPiece{Span: segmenter.Span{Start: f.sent, End: f.sent}, void: true})
	}
	safe := f.safe()
	if f.held && !final {
		safe = f.sent
	}
	if f.sent < safe {
		pieces = append(pieces, answerPiece{Span: segmenter.Span{Start: f.sent, End: safe}})
		f.sent = safe
	}
	return pieces
}

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

// mayOpenFence reports whether an unfinished line can open a code fence: if it does not
// show yet that it does not.
func mayOpenFence(line string) bool {
	const indent, marks = 3, 3
	start := line[:min(len(line), indent+marks)]
	inner := strings.TrimLeft(start, " ")
	if len(start)-len(inner) > indent {
		return false
	}
	inner = inner[:min(len(inner), marks)]
	return strings.Trim(inner, "`") == "" || strings.Trim(inner, "~") == ""
}

// line is a line of a text that may grow: text[start:end] was searched for its break.
type line struct{ start, end int }

// complete sets the end of the line, unless it may become longer.
func (l *line) complete(text string, final bool) bool {
	l.end = max(l.end, l.start)
	if l.end > l.start && text[l.end-1] == '\n' {
		return true
	}
	if i := strings.IndexByte(text[l.end:], '\n'); i >= 0 {
		l.end += i + 1
		return true
	}
	l.end = len(text)
	return final && l.start < l.end
}

// fence reads a line that may open or close a code fence: at most three
// spaces, then three or more marks. A closing one is bare.
func fence(line string) (mark byte, count int, bare bool) {
	inner := strings.TrimLeft(line, " ")
	if len(line)-len(inner) > 3 || len(inner) < 3 || inner[0] != '`' && inner[0] != '~' {
		return 0, 0, false
	}
	mark = inner[0]
	rest := strings.TrimLeft(inner, string(mark))
	count = len(inner) - len(rest)
	if count < 3 || mark == '`' && strings.Contains(rest, "`") { // ```code``` on one line
		return 0, 0, false
	}
	return mark, min(count, maxTicks), strings.TrimLeft(rest, " \t\r\n") == ""
}
