package chat

import (
	"slices"
	"strings"
)

// Context returns the turns of a prompt as plain text, each on a line of its own:
// without the template, special tokens and what the model hides, such as its
// reasoning.
func Context(prompt string) string {
	t, special := detect(prompt)
	if !special {
		return plainContext(prompt)
	}
	var turns []string
	keep := func(start, end int, assistant bool) {
		span := trimmed(prompt, start, end)
		text := prompt[span.Start:span.End]
		if assistant {
			text = withoutReasoning(text)
		}
		if text != "" {
			turns = append(turns, text)
		}
	}
	found := headers(prompt, t)
	start, hidden, assistant := 0, false, false
	for i := 0; i <= len(found); i++ {
		end := len(prompt)
		if i < len(found) {
			end = found[i].Start
		}
		if !hidden {
			keep(start, end, assistant)
		}
		if i == len(found) {
			break
		}
		h := found[i]
		hidden = slices.Contains(t.hidden, prompt[h.Start:h.End])
		start, assistant = h.End, h.assistant
		if t.named && !h.assistant {
			start += roleName(prompt[start:])
		}
	}
	return strings.Join(turns, "\n")
}

// withoutReasoning removes the blocks <think>...</think> of a turn of the assistant. The
// last one may have no end: many templates begin it in the prompt.
func withoutReasoning(turn string) string {
	const begin, end = "<think>", "</think>"
	if !strings.Contains(turn, begin) {
		return turn
	}
	var visible strings.Builder
	for {
		before, rest, found := strings.Cut(turn, begin)
		visible.WriteString(before)
		if !found {
			return strings.TrimSpace(visible.String())
		}
		_, turn, _ = strings.Cut(rest, end)
	}
}

// plainContext removes the header of the user before a prompt without special
// tokens, and that of the assistant after it.
func plainContext(prompt string) string {
	span := trimmed(prompt, 0, len(prompt))
	text := prompt[span.Start:span.End]
	answered := false
	for _, mark := range plainAssistant {
		if rest, ok := strings.CutSuffix(text, mark); ok {
			text, answered = strings.TrimSpace(rest), true
			break
		}
	}
	if !answered {
		return text
	}
	for _, mark := range plainUser {
		if rest, ok := strings.CutPrefix(text, mark); ok {
			return strings.TrimSpace(rest)
		}
	}
	return text
}

// roleName returns the length of the name of the role that text begins with, or 0. A
// line break or a special token follows it.
func roleName(text string) int {
	n := 0
	for n < len(text) && n < maxHeader && (text[n] == '_' || text[n] >= 'A' && text[n] <= 'Z' || text[n] >= 'a' && text[n] <= 'z') {
		n++
	}
	if n == len(text) || text[n] == '\n' || specialPrefix(text[n:]) > 0 {
		return n
	}
	return 0
}
