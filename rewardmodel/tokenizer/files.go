package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

var errUTF8 = errors.New("not valid UTF-8")

// parseObject reads a JSON object and nothing after it.
func parseObject[V any](data []byte) (map[string]V, error) {
	if !utf8.Valid(data) {
		return nil, errUTF8 // the decoder would replace what is wrong, and so merge keys
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
		return nil, errors.New("vocabulary: it is empty")
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
		return nil, errors.New("vocabulary: it is empty")
	}
	return v, nil
}
