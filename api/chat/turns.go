package chat

import (
	"slices"
	"strings"

	"assay/segmenter"
)

// Turns returns what the assistant said in query after prompt, turn by turn, in
// order, without the surrounding template, special tokens and white space. A turn
// may be empty; there is at least one.
//
// The prompt may include the template or not, and is found even if a special token
// precedes it or its start was cut off. If it is "" or not found, the answer begins
// after the last turn of another role. Without special tokens ("User: ...
// Assistant: ...") a header may be forged, so that all text after the first one
// counts.
func Turns(query, prompt string) []segmenter.Span {
	t, special := detect(query)
	cut, found := locate(query, prompt)
	switch {
	case found && special:
		last, any := lastHeader(headers(query[:cut], t))
		return assistantTurns(query, cut, t, any && last.assistant)
	case found:
		return []segmenter.Span{trimmed(query, skipPlain(query, cut), len(query))}
	case special:
		return lastBlock(query, t)
	default:
		return []segmenter.Span{trimmed(query, plainStart(query), len(query))}
	}
}

// Continuation is like Turns for the text after a prompt that ends with the header
// of the assistant: text begins within a turn of the assistant.
func Continuation(text string) []segmenter.Span {
	t, _ := detect(text)
	return assistantTurns(text, 0, t, true)
}

// Templated reports whether text begins with a turn of a template with special
// tokens, as a whole conversation does.
func Templated(text string) bool {
	t, special := detect(text)
	if !special {
		return false
	}
	start := 0
	for {
		rest := strings.TrimLeft(text[start:], " \t\r\n")
		start = len(text) - len(rest)
		if found := headers(rest[:min(len(rest), maxHeader)], t); len(found) > 0 && found[0].Start == 0 {
			return true
		}
		n := specialPrefix(rest)
		if n == 0 {
			return false
		}
		start += n
	}
}

// maxHeader exceeds the length of every header in bytes.
const maxHeader = 64

// header marks the start of a turn.
type header struct {
	segmenter.Span
	assistant bool
}

// headers returns the headers of a template in text, in order and without overlaps.
func headers(text string, t template) []header {
	var found []header
	add := func(marks []string, assistant bool) {
		for _, mark := range marks {
			for at := 0; ; {
				i := strings.Index(text[at:], mark)
				if i < 0 {
					break
				}
				start := at + i
				at = start + len(mark)
				found = append(found, header{segmenter.Span{Start: start, End: at}, assistant})
			}
		}
	}
	add(t.assistant, true)
	add(t.other, false)
	slices.SortFunc(found, func(a, b header) int {
		if a.Start != b.Start {
			return a.Start - b.Start
		}
		return b.End - a.End
	})
	end := 0
	return slices.DeleteFunc(found, func(h header) bool {
		if h.Start < end {
			return true
		}
		end = h.End
		return false
	})
}

// Headers returns the maximum number of headers that the other functions find in
// text, for callers that bound their memory: each takes about 100 bytes.
func Headers(text string) int {
	t, _ := detect(text)
	n := 0
	for _, marks := range [][]string{t.assistant, t.other} {
		for _, mark := range marks {
			n += strings.Count(text, mark)
		}
	}
	return n
}

func lastHeader(found []header) (header, bool) {
	if len(found) == 0 {
		return header{}, false
	}
	return found[len(found)-1], true
}

// detect returns the template whose header comes first in text.
func detect(text string) (template, bool) {
	best, first := template{}, len(text)
	for _, t := range templates {
		for _, marks := range [][]string{t.assistant, t.other} {
			for _, mark := range marks {
				// Only a header before the best one so far can be better.
				if i := strings.Index(text[:min(len(text), first+len(mark))], mark); i >= 0 && i < first {
					best, first = t, i
				}
			}
		}
	}
	return best, first < len(text)
}

// assistantTurns returns the turns of the assistant in text from a byte on.
// speaking says whether that byte is in a turn of the assistant.
func assistantTurns(text string, from int, t template, speaking bool) []segmenter.Span {
	var turns []segmenter.Span
	keep := func(start, end int) {
		if span := trimmed(text, start, end); span.Start < span.End {
			turns = append(turns, span)
		}
	}
	start := from
	for _, h := range headers(text[from:], t) {
		if speaking {
			keep(start, from+h.Start)
		}
		start, speaking = from+h.End, h.assistant
	}
	if speaking {
		keep(start, len(text))
	}
	if len(turns) == 0 {
		turns = append(turns, segmenter.Span{Start: len(text), End: len(text)})
	}
	return turns
}

// lastBlock returns the turns of the assistant that no turn of another role follows.
// If text ends with a header of the assistant, that turn is empty.
func lastBlock(text string, t template) []segmenter.Span {
	found := headers(text, t)
	first := len(found)
	for first > 0 && found[first-1].assistant {
		first--
	}
	if first == len(found) { // another role has the last turn: use the assistant's turns before it
		for first > 0 && !found[first-1].assistant {
			first--
		}
		for first > 0 && found[first-1].assistant {
			first--
		}
	}
	if first == len(found) || !found[first].assistant {
		return []segmenter.Span{trimmed(text, 0, len(text))}
	}
	return assistantTurns(text, found[first].Start, t, false)
}
