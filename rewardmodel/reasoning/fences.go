package reasoning

import "strings"

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
