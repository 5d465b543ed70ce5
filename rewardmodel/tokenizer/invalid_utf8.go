package tokenizer

import (
	"sort"
	"unicode/utf8"
)

// gaps are the places in a repaired text, in order, where a U+FFFD stands for
// one invalid byte.
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

// original maps a character boundary of the repaired text to the text itself.
func (g gaps) original(pos int) int { return pos - grown*sort.SearchInts(g, pos) }
