package tokenizer

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
)

// settings is the content of the configuration files next to a vocabulary.
type settings struct {
	names      map[string]string // "cls_token" -> "<s>"
	special    []string          // additional_special_tokens
	added      map[string]int    // tokens beyond the vocabulary
	addedPlain []string          // added tokens that are not special

	addPrefixSpace bool
	splitPunct     bool  // split_by_punct, of DeBERTa
	lowercase      *bool // nil: the default of the model
	chineseChars   bool
	stripAccents   *bool // nil: the same as lowercase
}

var (
	robertaNames = map[string]string{"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>"}
	bertNames    = map[string]string{"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
)

// readSettings reads tokenizer_config.json, special_tokens_map.json and
// added_tokens.json, those that exist.
func readSettings(dir string) (*settings, error) {
	s := &settings{names: make(map[string]string), added: make(map[string]int), chineseChars: true}
	steps := []struct {
		file  string
		apply func(map[string]json.RawMessage) error
	}{{configFile, s.applyConfig}, {specialsFile, s.applyNames}, {addedFile, s.applyAdded}}
	for _, step := range steps {
		_, err := readOptional(dir, step.file, func(data []byte) (struct{}, error) {
			fields, err := parseObject[json.RawMessage](data)
			if err != nil {
				return struct{}{}, err
			}
			return struct{}{}, step.apply(fields)
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *settings) applyConfig(fields map[string]json.RawMessage) error {
	for key, target := range map[string]any{
		"add_prefix_space": &s.addPrefixSpace, "do_lower_case": &s.lowercase, "split_by_punct": &s.splitPunct,
		"tokenize_chinese_chars": &s.chineseChars, "strip_accents": &s.stripAccents,
	} {
		if value, ok := fields[key]; ok {
			if err := json.Unmarshal(value, target); err != nil {
				return fmt.Errorf("%s: want true or false: %w", key, err)
			}
		}
	}
	decoder := make(map[string]struct {
		Content string `json:"content"`
		Special bool   `json:"special"`
	})
	if value, ok := fields["added_tokens_decoder"]; ok {
		if err := json.Unmarshal(value, &decoder); err != nil {
			return fmt.Errorf("added_tokens_decoder: %w", err)
		}
	}
	for key, token := range decoder {
		id, err := strconv.Atoi(key)
		if err != nil {
			return fmt.Errorf("added_tokens_decoder: %q is not a token id", key)
		}
		s.added[token.Content] = id
		if token.Special {
			s.special = append(s.special, token.Content)
		} else {
			s.addedPlain = append(s.addedPlain, token.Content)
		}
	}
	return s.applyNames(fields)
}

// applyNames reads the special tokens: each a string, or an object with its content.
func (s *settings) applyNames(fields map[string]json.RawMessage) error {
	for _, key := range []string{"bos_token", "eos_token", "cls_token", "sep_token", "pad_token", "unk_token", "mask_token"} {
		if value, ok := fields[key]; ok {
			name, err := parseToken(value)
			if err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			if name != "" {
				s.names[key] = name
			}
		}
	}
	if value, ok := fields["additional_special_tokens"]; ok {
		var list []json.RawMessage
		if err := json.Unmarshal(value, &list); err != nil {
			return fmt.Errorf("additional_special_tokens: %w", err)
		}
		for _, item := range list {
			name, err := parseToken(item)
			if err != nil {
				return fmt.Errorf("additional_special_tokens: %w", err)
			}
			s.special = append(s.special, name)
		}
	}
	return nil
}

func (s *settings) applyAdded(fields map[string]json.RawMessage) error {
	for token, value := range fields {
		var id int
		if err := json.Unmarshal(value, &id); err != nil {
			return fmt.Errorf("token %q: %w", token, err)
		}
		s.added[token] = id
	}
	return nil
}

// parseToken reads a special token: a string, an object with a content, or null.
func parseToken(value json.RawMessage) (string, error) {
	var name *string
	if json.Unmarshal(value, &name) == nil {
		if name == nil {
			return "", nil
		}
		return *name, nil
	}
	var token struct {
		Content *string `json:"content"`
	}
	if err := json.Unmarshal(value, &token); err != nil || token.Content == nil {
		return "", fmt.Errorf("want a string or an object with a content, not %.80s", value)
	}
	return *token.Content, nil
}

// name returns a special token from the files, or its default.
func (s *settings) name(key string, defaults map[string]string) string {
	if name, ok := s.names[key]; ok {
		return name
	}
	return defaults[key]
}

func (s *settings) normalizer() normalizer {
	lower := s.lowercase == nil || *s.lowercase
	strip := lower
	if s.stripAccents != nil {
		strip = *s.stripAccents
	}
	return normalizer{cleanText: true, chineseChars: s.chineseChars, stripAccents: strip, lowercase: lower}
}

// complete adds the added tokens and the special tokens of the settings to parts
// that were read from a plain vocabulary.
func (s *settings) complete(p *parts, dir string, defaults map[string]string) error {
	wrap := func(file string, err error) error {
		return fmt.Errorf("%s: %w", filepath.Join(dir, file), wrapFormat(err))
	}
	if s.addPrefixSpace && p.merges != nil {
		return wrap(configFile, errPrefixSpace)
	}
	for token, id := range s.added {
		special := slices.Contains(s.special, token)
		for _, name := range s.names {
			special = special || name == token
		}
		if !special || slices.Contains(s.addedPlain, token) {
			return wrap(configFile, plainTokenError(token))
		}
		if err := p.vocab.add(token, id); err != nil {
			return wrap(addedFile, err)
		}
	}
	for _, part := range []struct {
		key string
		set func(id int32)
	}{
		{"cls_token", func(id int32) { p.before = []int32{id} }},
		{"sep_token", func(id int32) { p.after = []int32{id} }},
		{"pad_token", func(id int32) { p.pad = id }},
	} {
		name := s.name(part.key, defaults)
		id, ok := p.vocab.ids[name]
		if !ok {
			return wrap(specialsFile, fmt.Errorf("%s %q is not in the vocabulary", part.key, name))
		}
		part.set(id)
	}
	return nil
}
