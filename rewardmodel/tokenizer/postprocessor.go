package tokenizer

import (
	"errors"
	"fmt"
)

// parseFrame reads the post-processor: which tokens go before and after a text.
func parseFrame(post map[string]any, p *parts) error {
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
		return sequence(o, p)
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

// sequence reads a list of post-processors of which one makes the frame.
func sequence(o object, p *parts) error {
	processors, _ := o["processors"].([]any)
	var frames []map[string]any
	for _, item := range processors {
		if processor, _ := item.(map[string]any); processor["type"] != "ByteLevel" {
			frames = append(frames, processor)
		}
	}
	if len(frames) != 1 || frames[0]["type"] == "Sequence" {
		return fmt.Errorf("post_processor: a Sequence of %d processors in addition to ByteLevel is not supported; want one", len(frames))
	}
	return parseFrame(frames[0], p)
}

func tokenID(value any) (int32, bool) {
	id, ok := value.(float64)
	if !ok || id < 0 || id >= maxID || id != float64(int32(id)) {
		return 0, false
	}
	return int32(id), true
}
