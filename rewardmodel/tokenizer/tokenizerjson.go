package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/sugarme/tokenizer"
)

var errPrefixSpace = errors.New("add_prefix_space is true, which is not supported; text is tokenized without a prefix space")

func plainTokenError(token string) error {
	return fmt.Errorf("added_tokens: %q is not special; added tokens that text can match are not supported", token)
}

// parseTokenizer reads tokenizer.json into the library's type, and rejects what
// this package cannot reproduce exactly.
func parseTokenizer(data []byte, s *settings) (parts, error) {
	if !utf8.Valid(data) {
		return parts{}, errUTF8
	}
	var doc tokenizer.Config
	if err := json.Unmarshal(data, &doc); err != nil {
		return parts{}, err
	}
	if doc.Model == nil {
		return parts{}, errors.New("model: missing; want BPE, WordPiece or Unigram")
	}
	p, err := parseModel(object(doc.Model), &doc)
	if err != nil {
		return parts{}, err
	}
	plain := false
	for _, token := range doc.AddedTokens {
		if !token.Special && p.merges == nil {
			return parts{}, plainTokenError(token.Content)
		}
		plain = plain || !token.Special
		if token.Id < 0 || token.Id >= maxID {
			return parts{}, fmt.Errorf("added_tokens: %q has id %d, outside 0 to %d", token.Content, token.Id, maxID-1)
		}
		if err := p.vocab.add(token.Content, int(token.Id)); err != nil {
			return parts{}, fmt.Errorf("added_tokens: %w", err)
		}
	}
	if p.merges != nil && (plain || doc.Normalizer != nil) {
		if err := json.Unmarshal(data, &p.around); err != nil {
			return parts{}, err
		}
	}
	if err := parsePostProcessor(doc.PostProcessor, &p); err != nil {
		return parts{}, err
	}
	defaults := robertaNames
	if p.merges == nil {
		defaults = bertNames
	}
	name := s.name("pad_token", defaults)
	if stored, ok := doc.Padding["pad_token"].(string); ok && s.names["pad_token"] == "" {
		name = stored
	}
	pad, ok := p.vocab.ids[name]
	if !ok {
		return parts{}, fmt.Errorf("padding token %q is not in the vocabulary; name it as pad_token in %s", name, specialsFile)
	}
	p.pad = pad
	return p, nil
}

// parseModel reads the model, and the normalizer and pre-tokenizer that it needs.
func parseModel(m object, doc *tokenizer.Config) (parts, error) {
	kind, err := m.text("type", "")
	if err != nil {
		return parts{}, fmt.Errorf("model: %w", err)
	}
	if kind == "" { // files before version 1.0 have no type
		if kind = "WordPiece"; m["merges"] != nil {
			kind = "BPE"
		}
	}
	var p parts
	switch kind {
	case "BPE":
		p, err = parseBPE(m)
		if err == nil {
			err = checkByteLevel(doc)
		}
	case "WordPiece":
		p, err = parseWordPiece(m)
		if err == nil {
			p.normalizer, err = parseNormalizer(doc)
		}
	case "Unigram":
		p, err = parseUnigram(m, doc)
	default:
		return parts{}, fmt.Errorf("model: type %q is not supported; want BPE, WordPiece or Unigram", kind)
	}
	return p, err
}

func parseBPE(m object) (parts, error) {
	for _, key := range []string{"continuing_subword_prefix", "end_of_word_suffix"} {
		if value, err := m.text(key, ""); err != nil || value != "" {
			return parts{}, fmt.Errorf("model: %s %v is not supported", key, m[key])
		}
	}
	if dropout := m["dropout"]; dropout != nil && dropout != 0.0 {
		return parts{}, fmt.Errorf("model: dropout %v is not supported", dropout)
	}
	ignore, err := m.flag("ignore_merges", false)
	if err != nil {
		return parts{}, fmt.Errorf("model: %w", err)
	}
	v, err := m.vocab()
	if err != nil {
		return parts{}, err
	}
	list, ok := m["merges"].([]any)
	if !ok {
		return parts{}, errors.New("model: merges: want a list")
	}
	merges := make([]string, len(list))
	for i, item := range list {
		switch item := item.(type) {
		case string:
			merges[i] = item
			continue
		case []any:
			if len(item) == 2 {
				left, okLeft := item[0].(string)
				right, okRight := item[1].(string)
				if okLeft && okRight {
					merges[i] = left + " " + right
					continue
				}
			}
		}
		return parts{}, fmt.Errorf("model: merges: merge %d: want \"left right\" or [\"left\", \"right\"]", i+1)
	}
	return parts{vocab: v, merges: merges, ignoreMerges: ignore}, nil
}

func parseWordPiece(m object) (parts, error) {
	v, err := m.vocab()
	if err != nil {
		return parts{}, err
	}
	unknown, err1 := m.text("unk_token", "[UNK]")
	prefix, err2 := m.text("continuing_subword_prefix", "##")
	chars, err3 := m.number("max_input_chars_per_word", 100)
	if err := errors.Join(err1, err2, err3); err != nil {
		return parts{}, fmt.Errorf("model: %w", err)
	}
	return parts{vocab: v, unknown: unknown, prefix: prefix, maxChars: chars}, nil
}

// checkByteLevel rejects any pre-tokenizer other than that of RoBERTa and ModernBERT.
func checkByteLevel(doc *tokenizer.Config) error {
	pre := object(doc.PreTokenizer)
	if pre["type"] != "ByteLevel" {
		return fmt.Errorf("pre_tokenizer: %v is not supported with BPE; want ByteLevel", pre["type"])
	}
	prefixSpace, err1 := pre.flag("add_prefix_space", true)
	regex, err2 := pre.flag("use_regex", true)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("pre_tokenizer: %w", err)
	}
	if prefixSpace {
		return fmt.Errorf("pre_tokenizer: %w", errPrefixSpace)
	}
	if !regex {
		return errors.New("pre_tokenizer: use_regex false is not supported")
	}
	return nil
}

// parseNormalizer reads BERT's normalizer, and rejects any pre-tokenizer other than BERT's.
func parseNormalizer(doc *tokenizer.Config) (normalizer, error) {
	if kind := doc.PreTokenizer["type"]; kind != "BertPreTokenizer" {
		return normalizer{}, fmt.Errorf("pre_tokenizer: %v is not supported with WordPiece; want BertPreTokenizer", kind)
	}
	n := object(doc.Normalizer)
	if n == nil {
		return normalizer{}, nil
	}
	if n["type"] != "BertNormalizer" {
		return normalizer{}, fmt.Errorf("normalizer: %v is not supported with WordPiece; want BertNormalizer", n["type"])
	}
	clean, err1 := n.flag("clean_text", true)
	chineseChars, err2 := n.flag("handle_chinese_chars", true)
	lowercase, err3 := n.flag("lowercase", true)
	strip, err4 := n.flag("strip_accents", lowercase)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return normalizer{}, fmt.Errorf("normalizer: %w", err)
	}
	return normalizer{cleanText: clean, chineseChars: chineseChars, lowercase: lowercase, stripAccents: strip}, nil
}

// parsePostProcessor reads the special tokens before and after a text from the post-processor.
func parsePostProcessor(post map[string]any, p *parts) error {
	if post == nil {
		return errors.New("post_processor: missing; want RobertaProcessing, BertProcessing or TemplateProcessing")
	}
	var err error
	switch o := object(post); o["type"] {
	case "RobertaProcessing", "BertProcessing":
		p.before, err = o.tokenPair("cls")
		if err == nil {
			p.after, err = o.tokenPair("sep")
		}
	case "TemplateProcessing":
		err = o.template(p)
	case "Sequence": // ByteLevel only trims offsets, which is always done here
		return parsePostProcessorSequence(o, p)
	default:
		err = fmt.Errorf("type %v is not supported; want RobertaProcessing, BertProcessing or TemplateProcessing", o["type"])
	}
	if err != nil {
		return fmt.Errorf("post_processor: %w", err)
	}
	return nil
}

// tokenPair reads a field such as "cls": ["<s>", 0].
func (o object) tokenPair(key string) ([]int32, error) {
	pair, _ := o[key].([]any)
	if len(pair) == 2 {
		if id, ok := tokenID(pair[1]); ok {
			return []int32{id}, nil
		}
	}
	return nil, fmt.Errorf("%s: want [token, id], not %v", key, o[key])
}

// template reads the template of a single text, such as [CLS] A [SEP].
func (o object) template(p *parts) error {
	single, _ := o["single"].([]any)
	tokens, _ := o["special_tokens"].(map[string]any)
	seen := false
	for _, item := range single {
		piece, _ := item.(map[string]any)
		if sequence, ok := piece["Sequence"].(map[string]any); ok && sequence["id"] == "A" && !seen {
			seen = true
			continue
		}
		special, _ := piece["SpecialToken"].(map[string]any)
		name, ok := special["id"].(string)
		if !ok {
			return fmt.Errorf("single: piece %v is not supported", item)
		}
		entry, _ := tokens[name].(map[string]any)
		ids, _ := entry["ids"].([]any)
		if len(ids) == 0 {
			return fmt.Errorf("special_tokens: no ids for %q", name)
		}
		for _, value := range ids {
			id, ok := tokenID(value)
			if !ok {
				return fmt.Errorf("special_tokens: %q: %v is not an id", name, value)
			}
			if seen {
				p.after = append(p.after, id)
			} else {
				p.before = append(p.before, id)
			}
		}
	}
	if !seen {
		return errors.New("single: no piece for the text (Sequence A)")
	}
	return nil
}

// parsePostProcessorSequence reads a list of post-processors, exactly one of which must
// add special tokens.
func parsePostProcessorSequence(o object, p *parts) error {
	processors, _ := o["processors"].([]any)
	var others []map[string]any
	for _, item := range processors {
		if processor, _ := item.(map[string]any); processor["type"] != "ByteLevel" {
			others = append(others, processor)
		}
	}
	if len(others) != 1 || others[0]["type"] == "Sequence" {
		return fmt.Errorf("post_processor: a Sequence of %d processors in addition to ByteLevel is not supported; want one", len(others))
	}
	return parsePostProcessor(others[0], p)
}

func tokenID(value any) (int32, bool) {
	id, ok := value.(float64)
	if !ok || id < 0 || id >= maxID || id != float64(int32(id)) {
		return 0, false
	}
	return int32(id), true
}

// object is a JSON object in tokenizer.json, with checked access to its fields. A
// null field counts as missing.
type object map[string]any

func (o object) text(key, fallback string) (string, error) {
	return field(o, key, fallback, "a string")
}

func (o object) flag(key string, fallback bool) (bool, error) {
	return field(o, key, fallback, "true or false")
}

func (o object) number(key string, fallback int) (int, error) {
	value, err := field(o, key, float64(fallback), "a number")
	if err == nil && (value < 0 || value >= math.MaxInt32 || value != math.Trunc(value)) {
		return 0, fmt.Errorf("%s: %v is not a nonnegative integer", key, value)
	}
	return int(value), err
}

// field returns a field of type T, or fallback if it is missing.
func field[T any](o object, key string, fallback T, want string) (T, error) {
	switch value := o[key].(type) {
	case nil:
		return fallback, nil
	case T:
		return value, nil
	default:
		return fallback, fmt.Errorf("%s: want %s, not %v", key, want, value)
	}
}

// vocab reads the field vocab, an object of tokens and ids.
func (o object) vocab() (*vocabulary, error) {
	ids, ok := o["vocab"].(map[string]any)
	if !ok || len(ids) == 0 {
		return nil, errors.New("model: vocab: want an object of tokens and ids")
	}
	v := newVocabulary(len(ids))
	for token := range ids {
		id, err := object(ids).number(token, -1)
		if err != nil {
			return nil, fmt.Errorf("model: vocab: %w", err)
		}
		if err := v.add(token, id); err != nil {
			return nil, fmt.Errorf("model: %w", err)
		}
	}
	return v, nil
}
