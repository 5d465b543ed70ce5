package chat

import (
	"slices"
	"strings"

	"assay/segmenter"
)

// Turns returns what the assistant said in query after prompt, turn by turn, in
// order, without the template, special tokens and white space around it. A turn
// may be empty; there is at least one.
//
// The prompt may be as the template wrote it or as the user did, and is found
// although a special token stands before it or its beginning was cut off. When
// it is "" or not to be found, the answer begins behind the last turn of
// anybody else. Without special tokens ("User: ... Assistant: ...") there is no
// telling who forged a header, so that all behind the first one counts.
func Turns(query, prompt string) []segmenter.Span {
	t, special := detect(query)
	cut, found := locate(query, prompt)
	switch {
	case found && special:
		last, any := lastHeader(headers(query[:cut], t))
		return spoken(query, cut, t, any && last.assistant)
	case found:
		return []segmenter.Span{trimmed(query, skipPlain(query, cut), len(query))}
	case special:
		return lastBlock(query, t)
	default:
		return []segmenter.Span{trimmed(query, plainStart(query), len(query))}
	}
}

// Continuation is like Turns for what follows a prompt that ends with the
// header of the assistant: text begins with what the assistant says.
func Continuation(text string) []segmenter.Span {
	t, _ := detect(text)
	return spoken(text, 0, t, true)
}

// Templated tells whether text begins with a turn of a template that is known by
// special tokens, as a whole conversation does.
func Templated(text string) bool {
	t, special := detect(text)
	if !special {
		return false
	}
	start := 0
	for {
		rest := strings.TrimLeft(text[start:], " \t\r\n")
		start = len(text) - len(rest)
		if found := headers(rest[:min(len(rest), longestHeader)], t); len(found) > 0 && found[0].Start == 0 {
			return true
		}
		n := specialPrefix(rest)
		if n == 0 {
			return false
		}
		start += n
	}
}

// longestHeader is more bytes than any header has.
const longestHeader = 64

// header is where a turn begins.
type header struct {
	segmenter.Span
	assistant bool
}

// headers returns the headers of a template in text, in order, none inside of
// another.
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

// Headers is how many headers the other functions find in text at most, for a
// caller that bounds what they take: each costs some 100 bytes.
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
				// Only what lies before the best so far can be better.
				if i := strings.Index(text[:min(len(text), first+len(mark))], mark); i >= 0 && i < first {
					best, first = t, i
				}
			}
		}
	}
	return best, first < len(text)
}

// spoken returns the assistant's turns of text from a byte on. speaking says
// whether it is the assistant's turn there.
func spoken(text string, from int, t template, speaking bool) []segmenter.Span {
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

// lastBlock returns the assistant's turns that nobody else's follow. An answer
// that the template announces and that did not come is one, and empty.
func lastBlock(text string, t template) []segmenter.Span {
	found := headers(text, t)
	first := len(found)
	for first > 0 && found[first-1].assistant {
		first--
	}
	if first == len(found) { // somebody else speaks last: what did the assistant say before?
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
	return spoken(text, found[first].Start, t, false)
}
