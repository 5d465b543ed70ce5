package tokenizer

import (
	"sort"
	"unicode/utf8"

	"assay/segmenter"
)

// gaps are the sorted offsets in a repaired text at which a U+FFFD replaces one
// invalid byte.
type gaps []int

const grown = len("\uFFFD") - 1 // bytes that a repair adds

// repair returns the text with U+FFFD for each byte that is not part of valid UTF-8.
func repair(text string) ([]byte, gaps) {
	if utf8.ValidString(text) {
		return []byte(text), nil
	}
	b := make([]byte, 0, len(text)+len(text)/8)
	var at gaps
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && size == 1 {
			at = append(at, len(b))
		}
		b = utf8.AppendRune(b, r)
		i += size
	}
	return b, at
}

// restore maps spans of the repaired text to the original one, in place. They start and end at characters.
func (g gaps) restore(spans []segmenter.Span) {
	if len(g) == 0 {
		return
	}
	original := func(pos int) int { return pos - grown*sort.SearchInts(g, pos) }
	for i, s := range spans {
		spans[i] = segmenter.Span{Start: original(s.Start), End: original(s.End)}
	}
}
