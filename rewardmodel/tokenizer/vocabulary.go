package tokenizer

import (
	"fmt"

	"github.com/sugarme/tokenizer/pretokenizer"
)

// maxID bounds the ids of a vocabulary, so that a damaged file cannot ask for
// gigabytes of memory; the largest vocabularies in use have 256,000 tokens.
const maxID = 1 << 21

// vocabulary maps tokens to ids and back.
type vocabulary struct {
	ids    map[string]int32
	tokens []string // by id; "" where no token has the id
	used   []bool
}

func newVocabulary(size int) *vocabulary { return &vocabulary{ids: make(map[string]int32, size)} }

// add gives a token its id. It is an error if either is already taken by another.
func (v *vocabulary) add(token string, id int) error {
	if id < 0 || id >= maxID {
		return fmt.Errorf("vocabulary: token %q has id %d, outside 0 to %d", token, id, maxID-1)
	}
	if known, ok := v.ids[token]; ok {
		if known == int32(id) {
			return nil
		}
		return fmt.Errorf("vocabulary: token %q has two ids, %d and %d", token, known, id)
	}
	if id < len(v.used) && v.used[id] {
		return fmt.Errorf("vocabulary: tokens %q and %q have the same id %d", v.tokens[id], token, id)
	}
	if id >= len(v.tokens) {
		v.tokens = append(v.tokens, make([]string, id+1-len(v.tokens))...)
		v.used = append(v.used, make([]bool, id+1-len(v.used))...)
	}
	v.ids[token], v.tokens[id], v.used[id] = int32(id), token, true
	return nil
}

// byteAlphabet returns the printable character that stands for each byte in a
// byte-level vocabulary.
func byteAlphabet() [256]string {
	var alphabet [256]string
	for value, symbol := range pretokenizer.GenerateBytesChar() {
		alphabet[value] = symbol
	}
	return alphabet
}
