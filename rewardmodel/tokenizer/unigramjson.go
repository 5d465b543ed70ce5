package tokenizer

import (
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/sugarme/tokenizer"
)

// parseUnigram reads the model, its normalizers and its pre-tokenizer.
func parseUnigram(m object, doc *tokenizer.Config) (parts, error) {
	list, ok := m["vocab"].([]any)
	if !ok || len(list) == 0 {
		return parts{}, errors.New("model: vocab: want a list of [token, score]")
	}
	p := parts{vocab: newVocabulary(len(list)), unigram: &unigramParts{scores: make([]float64, len(list))}}
	for id, item := range list {
		pair, _ := item.([]any)
		if len(pair) != 2 {
			return parts{}, fmt.Errorf("model: vocab: token %d: want [token, score]", id)
		}
		token, okToken := pair[0].(string)
		score, okScore := pair[1].(float64)
		if !okToken || !okScore {
			return parts{}, fmt.Errorf("model: vocab: token %d: want [token, score]", id)
		}
		if err := p.vocab.add(token, id); err != nil {
			return parts{}, fmt.Errorf("model: %w", err)
		}
		p.unigram.scores[id] = score
	}
	if m["unk_id"] == nil {
		return parts{}, errors.New("model: unk_id: missing; without it, some texts have no tokens")
	}
	unknown, err1 := m.number("unk_id", 0)
	fallback, err2 := m.flag("byte_fallback", false)
	if err := errors.Join(err1, err2); err != nil {
		return parts{}, fmt.Errorf("model: %w", err)
	}
	p.unigram.unknown, p.unigram.fallback = unknown, fallback
	for _, token := range doc.AddedTokens {
		p.unigram.special = append(p.unigram.special, int32(token.Id))
	}
	preTokenizer, err := parseMetaspace(doc.PreTokenizer)
	if err != nil {
		return parts{}, fmt.Errorf("pre_tokenizer: %w", err)
	}
	p.unigram.preTokenizer = preTokenizer
	if p.unigram.normalizers, err = parseNormalizers(doc.Normalizer); err != nil {
		return parts{}, fmt.Errorf("normalizer: %w", err)
	}
	return p, nil
}

// members returns the list of a Sequence, or else the object as the only member; null has none.
func (o object) members(key string) ([]object, error) {
	if o == nil {
		return nil, nil
	}
	if o["type"] != "Sequence" {
		return []object{o}, nil
	}
	list, ok := o[key].([]any)
	if !ok {
		return nil, fmt.Errorf("want a list of %s", key)
	}
	all := make([]object, len(list))
	for i, item := range list {
		member, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("member %v of a Sequence is not an object", item)
		}
		all[i] = member
	}
	return all, nil
}

// parseMetaspace reads a Metaspace, optionally after a Punctuation. No pre-tokenizer disables splitting.
func parseMetaspace(pre map[string]any) (metaspace, error) {
	members, err := object(pre).members("pretokenizers")
	if err != nil {
		return metaspace{}, err
	}
	if len(members) == 0 {
		return metaspace{disabled: true}, nil
	}
	var m metaspace
	if first := members[0]; first["type"] == "Punctuation" && len(members) == 2 {
		if behavior, err := first.text("behavior", "Isolated"); err != nil || behavior != "Isolated" {
			return metaspace{}, fmt.Errorf("behavior %v of Punctuation is not supported; want Isolated", first["behavior"])
		}
		m.punct, members = true, members[1:]
	}
	meta := members[0]
	if len(members) != 1 || meta["type"] != "Metaspace" {
		return metaspace{}, fmt.Errorf("%v is not supported with Unigram; want Metaspace", meta["type"])
	}
	if replacement, err := meta.text("replacement", ""); err != nil || replacement != lowerBlock {
		return metaspace{}, fmt.Errorf("replacement %v is not supported; want %s", meta["replacement"], lowerBlock)
	}
	prefix, err1 := meta.flag("add_prefix_space", true)
	scheme, err2 := meta.text("prepend_scheme", "always")
	split, err3 := meta.flag("split", true)
	if err := errors.Join(err1, err2, err3); err != nil {
		return metaspace{}, fmt.Errorf("metaspace: %w", err)
	}
	m.split = split
	switch {
	case scheme == "never" || !prefix:
	case scheme == "always" || scheme == "first" && !m.punct:
		m.prefix = true
	default:
		return metaspace{}, fmt.Errorf("prepend_scheme %q is not supported here; want always or never", scheme)
	}
	return m, nil
}

// parseNormalizers reads the normalizers.
func parseNormalizers(normalizer map[string]any) ([]func(*classes) textNormalizer, error) {
	members, err := object(normalizer).members("normalizers")
	if err != nil {
		return nil, err
	}
	var normalizers []func(*classes) textNormalizer
	for _, o := range members {
		kind, err := o.text("type", "")
		if err != nil {
			return nil, err
		}
		normalizer, err := o.normalizer(kind)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		normalizers = append(normalizers, normalizer)
	}
	return normalizers, nil
}

// normalizer reads one normalizer.
func (o object) normalizer(kind string) (func(*classes) textNormalizer, error) {
	withoutClasses := func(n textNormalizer) func(*classes) textNormalizer {
		return func(*classes) textNormalizer { return n }
	}
	switch kind {
	case "Lowercase":
		return func(c *classes) textNormalizer { return lowercase{c} }, nil
	case "NFC":
		return func(c *classes) textNormalizer { return compose{c} }, nil
	case "Strip":
		left, err1 := o.flag("strip_left", false)
		right, err2 := o.flag("strip_right", false)
		return func(c *classes) textNormalizer { return strip{c, left, right} }, errors.Join(err1, err2)
	case "Prepend":
		content, err := o.text("prepend", "")
		return withoutClasses(prepend{content}), err
	case "Precompiled":
		text, err := o.text("precompiled_charsmap", "")
		if err != nil {
			return nil, err
		}
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("precompiled_charsmap: %w", err)
		}
		m, err := parseCharsmap(data)
		return withoutClasses(m), err
	case "Replace":
		content, err := o.text("content", "")
		if err != nil {
			return nil, err
		}
		pattern, _ := o["pattern"].(map[string]any)
		if text, ok := pattern["String"].(string); ok && text != "" {
			return withoutClasses(replace{literal(text), content}), nil
		}
		switch pattern["Regex"] {
		case " {2,}":
			return withoutClasses(replace{spaces, content}), nil
		case `\s{2,}|[\n\r\t]`:
			return func(c *classes) textNormalizer { return replace{c.whiteSpace, content} }, nil
		}
		return nil, fmt.Errorf("pattern %v is not supported", o["pattern"])
	}
	return nil, errors.New("not supported with Unigram; use Lowercase, NFC, Precompiled, Prepend, Replace or Strip")
}
