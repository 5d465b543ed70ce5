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
func answerParts(text string) []segmenter.Span {
	var parts []segmenter.Span
	keep := func(start, end int) {
		if start < end {
			parts = append(parts, segmenter.Span{Start: start, End: end})
		}
	}
	scan := tagScanner{text: text}
	for start := 0; ; {
		tag, opens, found := scan.next(start)
		if !found {
			keep(start, len(text))
			return parts
		}
		if !opens {
			start = tag + len(thinkClose)
			continue
		}
		keep(start, tag)
		length := strings.Index(text[tag:], thinkClose)
		if length < 0 {
			return parts
		}
		start = tag + length + len(thinkClose)
	}
}

// maxTicks is the maximum run of backticks or tildes that opens code. The bound
// keeps the search for closing runs linear.
const maxTicks = 8

// tagScanner finds tags outside of code. It reads the text once, from front to
// back, apart from searches that fail, of which there are at most a few for
// each length of a run.
type tagScanner struct {
	text string
	line segmenter.Span // the last one that was looked at
	open [256]int       // by mark: fences of at least so many marks are never closed; 0: unknown
}

// next returns where the first tag at or after from begins.
func (s *tagScanner) next(from int) (tag int, opens, found bool) {
	if !strings.Contains(s.text[from:], "think>") {
		return 0, false, false
	}
	for at := from; at < len(s.text); {
		if at >= s.line.End { // a line of many blocks is measured once
			s.line = segmenter.Span{Start: at, End: lineEnd(s.text, at)}
		}
		end := s.line.End
		if after := s.fenced(at, end); after > at {
			at = after
			continue
		}
		if i, opens := tagInLine(s.text[at:end]); i >= 0 {
			return at + i, opens, true
		}
		at = end
	}
	return 0, false, false
}

// fenced returns the end of the code fence that the line [at,end) opens, or at
// when it opens none that is closed.
func (s *tagScanner) fenced(at, end int) int {
	mark, count, _ := fence(s.text[at:end])
	if count == 0 || s.open[mark] > 0 && count >= s.open[mark] {
		return at
	}
	for line := end; line < len(s.text); {
		next := lineEnd(s.text, line)
		if m, n, bare := fence(s.text[line:next]); m == mark && n >= count && bare {
			return next
		}
		line = next
	}
	s.open[mark] = count
	return at
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

// tagInLine returns the first tag of a line that is not in code, or -1.
func tagInLine(line string) (tag int, opens bool) {
	var unclosed [maxTicks + 1]bool
	for i := 0; i < len(line); {
		rest := line[i:]
		switch {
		case strings.HasPrefix(rest, thinkOpen):
			return i, true
		case strings.HasPrefix(rest, thinkClose):
			return i, false
		case rest[0] == '`':
			ticks := len(rest) - len(strings.TrimLeft(rest, "`"))
			i += ticks
			if ticks > maxTicks || unclosed[ticks] {
				continue
			}
			if length := closingTicks(line[i:], ticks); length > 0 {
				i += length
			} else {
				unclosed[ticks] = true
			}
		default:
			i++
		}
	}
	return -1, false
}

// closingTicks is the length of the code up to and with the next run of exactly
// that many backticks, or 0.
func closingTicks(text string, ticks int) int {
	for i := 0; ; {
		next := strings.IndexByte(text[i:], '`')
		if next < 0 {
			return 0
		}
		i += next
		run := len(text[i:]) - len(strings.TrimLeft(text[i:], "`"))
		i += run
		if run == ticks {
			return i
		}
	}
}

// lineEnd is the index after the line break of the line that holds at.
func lineEnd(text string, at int) int {
	if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(text)
}
