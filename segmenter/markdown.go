package segmenter

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The functions of this file look at the content of a line, of which more may follow.

// heading matches an ATX heading.
func (s *scanner) heading(content string) bool {
	n := leading(content[:min(len(content), 7)], '#')
	return 1 <= n && n <= 6 && (s.past(n, len(content)) || content[n] == ' ' || content[n] == '\t')
}

// rulingLine matches a line that consists of at least two of the same mark: ---,
// * * *.
func (s *scanner) rulingLine(content string) bool {
	c := content[0]
	if len(content) > maxLine || strings.IndexByte("-*_=~#+", c) < 0 || strings.Trim(content, content[:1]+" ") != "" {
		return false
	}
	s.touched = true
	n := strings.Count(content, content[:1])
	return n > 2 || n == 2 && len(content) == 2
}

// tableKind recognizes the rows of a table.
func (s *scanner) tableKind(content string) block {
	if !s.inTable && strings.IndexByte("|-:", content[0]) < 0 {
		return prose
	}
	pipes := strings.Count(content[:min(len(content), maxLine)], "|")
	if len(content) <= maxLine && strings.Trim(content, "|-: \t") == "" && (s.inTable || s.tableHeader()) {
		s.touched = true
		if pipes > 0 && strings.Contains(content, "-") {
			return delimiterRow
		}
	}
	least := 1
	if !s.inTable {
		if least = 2; content[0] != '|' {
			return prose
		}
	}
	if pipes < least {
		s.past(maxLine-1, len(content))
		return prose
	}
	return tableRow
}

// listMarker returns the length of the marker at the start of a list item,
// with its white space and task box, or 0.
func (s *scanner) listMarker(content string) int {
	var n int
	switch r, size := utf8.DecodeRuneInString(content); r {
	case '-', '*', '+', '•', '‣', '◦', '▪', '▫', '●', '○', '·', '–', '—', '―', '✓', '✔', '✗', '✘', '→', '►', '➤':
		n = size
	default:
		n = s.enumeration(content)
	}
	if n == 0 || !s.past(n, len(content)) && content[n] != ' ' && content[n] != '\t' {
		return 0
	}
	for !s.past(n, len(content)) && (content[n] == ' ' || content[n] == '\t') {
		n++
	}
	return n + s.taskBox(content[n:])
}

// taskBox returns the length of the box at the start of a task, with the space after
// it, or 0.
func (s *scanner) taskBox(rest string) int {
	for i, c := range []string{"[", " xX", "]", " "} {
		if s.past(i, len(rest)) || strings.IndexByte(c, rest[i]) < 0 {
			return 0
		}
	}
	return len("[x] ")
}

// enumeration matches 1. 1) (1) a) (a) (iv) and 1.), without white space.
func (s *scanner) enumeration(content string) int {
	end := len(content)
	i, open := 0, content[0] == '('
	if open {
		i++
	}
	from := i
	for i-from < 9 && !s.past(i, end) && isDigit(content[i]) {
		i++
	}
	digits := i > from
	for !digits && i-from < 4 && !s.past(i, end) && strings.IndexByte("ivxIVX", content[i]) >= 0 {
		i++
	}
	if i == from && !s.past(i, end) && 'a' <= content[i]|0x20 && content[i]|0x20 <= 'z' {
		i++
	}
	if i == from {
		return 0
	}
	dot := !open && digits && !s.past(i, end) && content[i] == '.'
	if dot {
		i++
	}
	if !s.past(i, end) && content[i] == ')' {
		return i + 1
	}
	if dot {
		return i
	}
	return 0
}

// dialogueLabel matches the speaker label of a dialogue: "User:", "**Dr. Lee:**",
// "<nick>", "[10:15] Ann:".
func (s *scanner) dialogueLabel(content string) bool {
	const longest = 40 // bytes
	rest := content[:min(len(content), longest)]
	complete := len(content) >= longest
	for rest != "" && (rest[0] == '*' || rest[0] == '_') {
		rest = rest[1:]
	}
	if rest == "" {
		s.touched = !complete
		return false
	}
	if rest[0] == '<' {
		nick, after, ok := strings.Cut(rest[1:], ">")
		if nick == "" && ok || strings.ContainsAny(nick, " /=") || after != "" && after[0] != ' ' {
			return false
		}
		s.touched = after == "" && !complete
		return after != ""
	}
	if rest[0] == '[' {
		if len(rest) > 1 && !isDigit(rest[1]) {
			return false
		}
		found := strings.Contains(rest, ":")
		s.touched = !found && !complete
		return found
	}
	label, after, ok := strings.Cut(rest, ":")
	first, _ := utf8.DecodeRuneInString(label)
	if !unicode.IsUpper(first) || strings.Count(label, " ") > 3 || strings.ContainsAny(label, ",;!?\"") || after != "" && strings.IndexByte(" *_\t", after[0]) < 0 {
		return false
	}
	s.touched = after == "" && !complete
	return ok
}
