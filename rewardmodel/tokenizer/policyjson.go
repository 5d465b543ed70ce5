package tokenizer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"assay/rewardmodel/tokenizer/internal/regex"
	"golang.org/x/text/unicode/norm"
)

// errNotBPE reports another model, which Load may support.
var errNotBPE = errors.New("not a byte-level BPE")

// policyJSON is a tokenizer.json.
type policyJSON struct {
	AddedTokens []struct {
		ID         int    `json:"id"`
		Content    string `json:"content"`
		SingleWord bool   `json:"single_word"`
		Lstrip     bool   `json:"lstrip"`
		Rstrip     bool   `json:"rstrip"`
		Normalized bool   `json:"normalized"`
		Special    bool   `json:"special"`
	} `json:"added_tokens"`
	Normalizer    object `json:"normalizer"`
	PreTokenizer  object `json:"pre_tokenizer"`
	PostProcessor object `json:"post_processor"`
	Model         object `json:"model"`
}

func parsePolicy(data []byte) (*Policy, error) {
	if !utf8.Valid(data) {
		return nil, errUTF8
	}
	var doc policyJSON
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	if kind, err := doc.Model.text("type", "BPE"); err != nil || kind != "BPE" || doc.Model["merges"] == nil {
		return nil, fmt.Errorf("model: %w", errNotBPE)
	}
	p := &Policy{trimFirst: true}
	classes, err := parseClasses(unicodeText)
	if err != nil {
		return nil, err
	}
	p.classes = classes
	model, err := parseBPE(doc.Model)
	if err != nil {
		return nil, err
	}
	if p.model, err = newByteLevel(model.vocab, model.merges, model.ignoreMerges, classes); err != nil {
		return nil, err
	}
	if err := p.normalizer(doc.Normalizer); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	if err := p.preTokenizer(doc.PreTokenizer); err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	if err := p.postProcessor(doc.PostProcessor); err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	if err := p.addTokens(doc, false); err != nil {
		return nil, fmt.Errorf("added_tokens: %w", err)
	}
	return p, nil
}

// aroundWords adds a normalizer and added tokens to a model. A special token in a text is text.
func aroundWords(b *byteLevel, c *classes, doc *policyJSON) (model, error) {
	p := &Policy{model: b, classes: c, splits: []splitter{byGPT2(c)}, trim: true, trimFirst: true}
	if err := p.normalizer(doc.Normalizer); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	if err := p.addTokens(*doc, true); err != nil {
		return nil, fmt.Errorf("added_tokens: %w", err)
	}
	return withTokens{p}, nil
}

func (p *Policy) normalizer(o object) error {
	for _, n := range flatten(o, "normalizers") {
		if n["type"] != "NFC" {
			return fmt.Errorf("%v is not supported; want NFC, or none", n["type"])
		}
		p.normalizers = append(p.normalizers, compose{p.classes})
	}
	return nil
}

// flatten returns the members of a Sequence, or the object itself.
func flatten(o object, list string) []object {
	if o == nil {
		return nil
	}
	if o["type"] != "Sequence" {
		return []object{o}
	}
	var out []object
	items, _ := o[list].([]any)
	for _, item := range items {
		piece, _ := item.(map[string]any)
		out = append(out, flatten(object(piece), list)...)
	}
	return out
}

func (p *Policy) preTokenizer(o object) error {
	pieces := flatten(o, "pretokenizers")
	for i, piece := range pieces {
		if last := i == len(pieces)-1; last != (piece["type"] == "ByteLevel") {
			return fmt.Errorf("%v is misplaced; ByteLevel must be the last one, and only the last one", piece["type"])
		}
		split, err := p.splitter(piece)
		if err != nil {
			return err
		}
		if split != nil {
			p.splits = append(p.splits, split)
		}
	}
	if len(pieces) == 0 {
		return errors.New("missing; want ByteLevel")
	}
	return nil
}

// splitter reads one pre-tokenizer; the result is nil if it does not split.
func (p *Policy) splitter(o object) (splitter, error) {
	switch o["type"] {
	case "ByteLevel":
		prefix, err1 := o.flag("add_prefix_space", true)
		expression, err2 := o.flag("use_regex", true)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		if prefix {
			return nil, errPrefixSpace
		}
		if !expression {
			return nil, nil
		}
		return byGPT2(p.classes), nil
	case "Digits":
		each, err := o.flag("individual_digits", false)
		if err != nil {
			return nil, err
		}
		pattern := `\p{numeric}+`
		if each {
			pattern = `\p{numeric}`
		}
		digits, err := regex.Compile(pattern)
		return byRegex(digits, true, true), err
	case "Split":
		return split(o)
	}
	return nil, fmt.Errorf("%v is not supported; want Split, Digits or ByteLevel", o["type"])
}

func split(o object) (splitter, error) {
	pattern, _ := o["pattern"].(map[string]any)
	expression, ok := pattern["Regex"].(string)
	if !ok {
		return nil, fmt.Errorf("pattern %v of Split is not supported; want a Regex", o["pattern"])
	}
	behavior, err1 := o.text("behavior", "")
	invert, err2 := o.flag("invert", false)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("in Split: %w", err)
	}
	r, err := regex.Compile(expression)
	if err != nil {
		return nil, fmt.Errorf("in Split: %w", err)
	}
	switch behavior {
	case "Isolated":
		return byRegex(r, true, true), nil
	case "Removed":
		return byRegex(r, invert, !invert), nil
	}
	return nil, fmt.Errorf("behavior %q of Split is not supported; want Isolated or Removed", behavior)
}

// postProcessor reads whether offsets are trimmed. It ignores the special tokens around a text.
func (p *Policy) postProcessor(o object) error {
	for _, piece := range flatten(o, "processors") {
		switch piece["type"] {
		case "ByteLevel", "RobertaProcessing":
			trim, err1 := piece.flag("trim_offsets", true)
			prefix, err2 := piece.flag("add_prefix_space", true)
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			if trim {
				p.trim, p.trimFirst = true, !prefix
			}
		case "TemplateProcessing", "BertProcessing":
		default:
			return fmt.Errorf("%v is not supported; want ByteLevel, TemplateProcessing, RobertaProcessing or BertProcessing", piece["type"])
		}
	}
	return nil
}

// addTokens reads the added tokens. With specialIsText, those that are special are text.
func (p *Policy) addTokens(doc policyJSON, specialIsText bool) error {
	for _, t := range doc.AddedTokens {
		isText := specialIsText && t.Special
		switch {
		case t.Content == "":
			continue
		case t.ID < 0 || t.ID >= maxID:
			return fmt.Errorf("%q has id %d, outside 0 to %d", t.Content, t.ID, maxID-1)
		case !isText && (t.SingleWord || t.Lstrip || t.Rstrip):
			return fmt.Errorf("%q has single_word, lstrip or rstrip, which is not supported", t.Content)
		}
		set, content := &p.rawTokens, t.Content
		if t.Normalized {
			set = &p.normalizedTokens
			if len(p.normalizers) > 0 {
				content = norm.NFC.String(content)
			}
		}
		token := newAddedToken(content, int32(t.ID))
		token.isText = isText
		set[content[0]] = append(set[content[0]], token)
	}
	for _, set := range []*addedTokens{&p.rawTokens, &p.normalizedTokens} {
		for _, tokens := range set {
			slices.SortStableFunc(tokens, func(a, b addedToken) int { return cmp.Compare(len(b.content), len(a.content)) })
		}
	}
	return nil
}
