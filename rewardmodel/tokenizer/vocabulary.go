package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sugarme/tokenizer/pretokenizer"
)

// maxID limits the ids of a vocabulary, so that a damaged file cannot allocate
// gigabytes; the largest vocabularies in use have 256,000 tokens.
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

// byteAlphabet returns the printable character that represents each byte in a
// byte-level vocabulary.
func byteAlphabet() [256]string {
	var alphabet [256]string
	for value, symbol := range pretokenizer.GenerateBytesChar() {
		alphabet[value] = symbol
	}
	return alphabet
}

var errUTF8 = errors.New("not valid UTF-8")

// parseObject reads a JSON object and nothing after it.
func parseObject[V any](data []byte) (map[string]V, error) {
	if !utf8.Valid(data) {
		return nil, errUTF8 // the decoder would replace invalid bytes, which could make keys equal
	}
	var object map[string]V
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, err
	}
	if object == nil {
		return nil, errors.New("want a JSON object, not null")
	}
	return object, nil
}

// parseVocab reads vocab.json: an object of tokens and their ids.
func parseVocab(data []byte) (*vocabulary, error) {
	ids, err := parseObject[*int](data)
	if err != nil {
		return nil, err
	}
	v := newVocabulary(len(ids))
	for token, id := range ids {
		if id == nil {
			return nil, fmt.Errorf("vocabulary: token %q has the id null", token)
		}
		if err := v.add(token, *id); err != nil {
			return nil, err
		}
	}
	if len(ids) == 0 {
		return nil, errors.New("vocabulary: empty")
	}
	return v, nil
}

// parseMerges reads merges.txt: one merge per line, by rank, after an optional line
// that starts with #version.
func parseMerges(data []byte) ([]string, error) {
	if !utf8.Valid(data) {
		return nil, errUTF8
	}
	merges := make([]string, 0, bytes.Count(data, []byte("\n"))+1)
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if strings.HasPrefix(line, "#version") {
			continue
		}
		if left, right, ok := strings.Cut(line, " "); !ok || left == "" || right == "" || strings.Contains(right, " ") {
			return nil, fmt.Errorf("line %d: %.80q is not two tokens separated by one space", number, line)
		}
		merges = append(merges, line)
	}
	return merges, nil
}

// parseWords reads vocab.txt: one token per line, its id is the line number
// from 0. White space at the end of a line is not part of the token.
func parseWords(data []byte) (*vocabulary, error) {
	if !utf8.Valid(data) {
		return nil, errUTF8
	}
	v := newVocabulary(bytes.Count(data, []byte("\n")) + 1)
	id := 0
	for line := range strings.Lines(string(data)) {
		if err := v.add(strings.TrimRightFunc(line, unicode.IsSpace), id); err != nil {
			return nil, fmt.Errorf("line %d: %w", id+1, err)
		}
		id++
	}
	if id == 0 {
		return nil, errors.New("vocabulary: empty")
	}
	return v, nil
}
