package segmenter

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// codeIndent is the indentation of a code block, in columns.
const codeIndent = 4

// verbatim returns the end of the block that opens at line l and contains no
// sentences: fenced code up to its closing fence or the end of the text, display
// math up to its closing mark or the next blank line.
func (s *scanner) verbatim(l line, content string) (end int, ok bool) {
	if fence := fenceOf(content); fence != "" {
		for at := l.next; at < len(s.text) && s.err == nil; {
			in := s.lineAt(at)
			if at = in.next; closesFence(s.text[in.text:in.end], fence) {
				return in.next, true
			}
		}
		return len(s.text), true
	}
	mark := mathClose(content)
	if mark == "" {
		return 0, false
	}
	end = l.next
	for at := l.next; at < len(s.text) && s.err == nil; {
		in := s.lineAt(at)
		if in.blank() {
			break
		}
		if at, end = in.next, in.next; strings.HasSuffix(s.text[in.text:in.end], mark) {
			break
		}
	}
	return end, true
}

// fenceOf returns the fence that opens at the start of a line, or "".
func fenceOf(content string) string {
	c := content[0]
	if c != '`' && c != '~' {
		return ""
	}
	n := leading(content, c)
	if n < 3 || c == '`' && strings.Contains(content[n:], "`") {
		return ""
	}
	return content[:n]
}

// leading returns how often s repeats c at its start.
func leading(s string, c byte) int {
	n := 0
	for n < len(s) && s[n] == c {
		n++
	}
	return n
}

func closesFence(content, fence string) bool {
	return strings.HasPrefix(content, fence) && strings.Trim(content, fence[:1]) == ""
}

// mathClose returns what closes the display math that a line opens, or "".
func mathClose(content string) string {
	switch content {
	case "$$":
		return "$$"
	case `\[`:
		return `\]`
	}
	return ""
}

// indentedCode returns the end of the indented lines from l on when they look
// like code rather than like prose.
func (s *scanner) indentedCode(l line) (end int, ok bool) {
	lines, code := 0, 0
	for at := l.start; at < len(s.text) && s.err == nil; {
		in := s.lineAt(at)
		if at = in.next; in.blank() {
			continue
		}
		if in.tabs < codeIndent {
			break
		}
		end = in.next
		lines++
		if codeLike(s.text[in.text:in.end]) {
			code++
		}
	}
	return end, code*2 > lines
}

func codeLike(content string) bool {
	last := content[len(content)-1]
	return strings.IndexByte(";{}()[]<>=\\", last) >= 0 || strings.Contains(content, "=") ||
		strings.Contains(content, "()") || strings.HasPrefix(content, "$ ")
}

// heading matches an ATX heading.
func heading(content string) bool {
	n := leading(content, '#')
	return 1 <= n && n <= 6 && (n == len(content) || content[n] == ' ' || content[n] == '\t')
}

// rulingLine matches a line that consists of at least two of the same mark: ---,
// * * *.
func rulingLine(content string) bool {
	c := content[0]
	if strings.IndexByte("-*_=~#+", c) < 0 {
		return false
	}
	n := strings.Count(content, content[:1])
	return n >= 2 && strings.Trim(content, content[:1]+" ") == "" && (n > 2 || len(content) == 2)
}

// tableLine emits l when it is a row of a table. The delimiter row below the
// heading is part of the heading's utterance.
func (s *scanner) tableLine(l line, content string, inTable bool) bool {
	if !strings.Contains(content, "|") {
		return false
	}
	if strings.Trim(content, "|-: \t") == "" && strings.Contains(content, "-") {
		if inTable && len(s.out) > 0 {
			s.out[len(s.out)-1].End = l.end
			return true
		}
		if n := len(s.para); n > 0 && strings.Contains(s.text[s.para[n-1].start:s.para[n-1].end], "|") {
			head := s.para[n-1]
			s.para = s.para[:n-1]
			s.flush()
			s.emit(head.start, l.end)
			return true
		}
	}
	if !inTable && (content[0] != '|' || strings.Count(content, "|") < 2) {
		return false
	}
	s.flush()
	s.emit(l.start, l.end)
	return true
}

// listMarker returns the length of the marker at the start of a list item,
// with its white space and task box, or 0.
func listMarker(content string) int {
	var n int
	switch r, size := utf8.DecodeRuneInString(content); r {
	case '-', '*', '+', '•', '‣', '◦', '▪', '▫', '●', '○', '·', '–', '—', '―', '✓', '✔', '✗', '✘', '→', '►', '➤':
		n = size
	default:
		n = enumeration(content)
	}
	if n == 0 || n < len(content) && content[n] != ' ' && content[n] != '\t' {
		return 0
	}
	for n < len(content) && (content[n] == ' ' || content[n] == '\t') {
		n++
	}
	if box := content[n:]; len(box) > 3 && box[0] == '[' && strings.IndexByte(" xX", box[1]) >= 0 && box[2] == ']' && box[3] == ' ' {
		n += 4
	}
	return n
}

// enumeration matches 1. 1) (1) a) (a) (iv) and 1.), without white space.
func enumeration(content string) int {
	i, open := 0, content[0] == '('
	if open {
		i++
	}
	from := i
	for i < len(content) && i-from < 9 && isDigit(content[i]) {
		i++
	}
	digits := i > from
	for !digits && i < len(content) && i-from < 4 && strings.IndexByte("ivxIVX", content[i]) >= 0 {
		i++
	}
	if i == from && i < len(content) && ('a' <= content[i]|0x20 && content[i]|0x20 <= 'z') {
		i++
	}
	if i == from {
		return 0
	}
	dot := !open && digits && i < len(content) && content[i] == '.'
	if dot {
		i++
	}
	if i < len(content) && content[i] == ')' {
		return i + 1
	}
	if dot {
		return i
	}
	return 0
}

// dialogueLabel matches the speaker label of a dialogue: "User:", "**Dr. Lee:**",
// "<nick>", "[10:15] Ann:".
func dialogueLabel(content string) bool {
	const longest = 40 // bytes
	rest := content[:min(len(content), longest)]
	for rest != "" && (rest[0] == '*' || rest[0] == '_') {
		rest = rest[1:]
	}
	if rest == "" {
		return false
	}
	if rest[0] == '<' {
		nick, after, ok := strings.Cut(rest[1:], ">")
		return ok && nick != "" && !strings.ContainsAny(nick, " /=") && strings.HasPrefix(after, " ")
	}
	if rest[0] == '[' {
		return len(rest) > 1 && isDigit(rest[1]) && strings.Contains(rest, ":")
	}
	label, after, ok := strings.Cut(rest, ":")
	first, _ := utf8.DecodeRuneInString(label)
	if !ok || !unicode.IsUpper(first) || strings.Count(label, " ") > 3 || after != "" && strings.IndexByte(" *_\t", after[0]) < 0 {
		return false
	}
	return !strings.ContainsAny(label, ",;!?\"")
}
