// Package wire decodes and encodes requests and results as JSON, for HTTP, NATS
// and files. Decoding is strict and bounded, and its errors name the field.
package wire

import (
	"errors"
	"fmt"

	"assay/rewardmodel"
)

// Limits bounds a request. A zero field has its default.
type Limits struct {
	MaxResponses int // responses per request; default 8192
	MaxInstances int // given instances and messages of all responses of a request; default 524288
	MaxDepth     int // nesting depth of JSON values of unknown fields and metadata; default 100
}

// DefaultMaxDepth is the default of Limits.MaxDepth.
const DefaultMaxDepth = 100

// DecodeRequest parses the body of a scoring request, strictly: it rejects
// invalid UTF-8, lone surrogates, duplicate names, nulls and wrong types,
// unknown values, unknown fields of options, and data after the object.
// Unknown fields elsewhere are ignored, so that newer clients still work.
// Every error is an *InputError.
func DecodeRequest(body []byte, limits Limits) (rewardmodel.Request, error) {
	d := newDecoder(body, limits)
	var req rewardmodel.Request
	seen := false
	err := d.document(func(name string) error {
		var err error
		switch name {
		case "responses":
			seen = true
			req.Responses, err = d.items()
		case "model":
			req.Model, err = d.name()
		case "options":
			err = d.options(&req.Options)
		default:
			err = d.skip()
		}
		return err
	})
	if err != nil {
		return rewardmodel.Request{}, err
	}
	if !seen {
		return rewardmodel.Request{}, rewardmodel.Invalidf("responses", `is missing; send {"responses":[{"response":"..."}]}`)
	}
	if err := req.Validate(); err != nil {
		return rewardmodel.Request{}, err
	}
	return req, nil
}

// DecodeItem parses one item, such as a line of a JSONL file or a message of a
// stream, as strictly as DecodeRequest.
func DecodeItem(line []byte) (rewardmodel.Item, error) {
	d := newDecoder(line, Limits{})
	var it rewardmodel.Item
	if err := d.document(d.itemMember(&it)); err != nil {
		return rewardmodel.Item{}, err
	}
	if err := it.Validate(); err != nil {
		return rewardmodel.Item{}, err
	}
	return it, nil
}

func (d *decoder) items() ([]rewardmodel.Item, error) {
	items := []rewardmodel.Item{}
	err := d.list(func() error {
		if len(items) == d.limits.MaxResponses {
			return &rewardmodel.InputError{
				Kind: rewardmodel.KindTooLarge, Field: "responses",
				Message: fmt.Sprintf("holds more than %d responses; split the request", d.limits.MaxResponses),
			}
		}
		var it rewardmodel.Item
		if err := d.object(d.itemMember(&it)); err != nil {
			return err
		}
		if err := it.Validate(); err != nil {
			return within(d.path(), err)
		}
		items = append(items, it)
		return nil
	})
	return items, err
}

// within prefixes the field of an error with the path of its item.
func within(item string, err error) error {
	var input *rewardmodel.InputError
	if errors.As(err, &input) {
		return input.Within(item)
	}
	return err
}

func (d *decoder) itemMember(it *rewardmodel.Item) func(string) error {
	return func(name string) (err error) {
		switch name {
		case "id":
			it.ID, err = d.name()
		case "prompt":
			it.Prompt, err = d.text()
		case "response":
			var text string
			text, err = d.text()
			it.Response = &text
		case "messages":
			it.Messages, err = d.messages()
		case "instances":
			it.Instances, err = d.instances()
		case "metadata":
			it.Metadata, err = d.raw()
		case "token_offsets":
			it.TokenOffsets, err = d.pairs()
		default:
			err = d.skip()
		}
		return err
	}
}

func (d *decoder) messages() ([]rewardmodel.Message, error) {
	messages := []rewardmodel.Message{}
	err := d.list(func() error {
		if err := d.count(); err != nil {
			return err
		}
		var m rewardmodel.Message
		var role, content bool
		err := d.object(func(name string) (err error) {
			switch name {
			case "role":
				role = true
				m.Role, err = d.text()
			case "content":
				content = true
				m.Content, err = d.text()
			default:
				err = d.skip()
			}
			return err
		})
		switch {
		case err != nil:
			return err
		case !role:
			return rewardmodel.Invalidf(d.path()+".role", `is missing; name the speaker, such as "assistant"`)
		case !content:
			return rewardmodel.Invalidf(d.path()+".content", "is missing; give the text of the message")
		}
		messages = append(messages, m)
		return nil
	})
	return messages, err
}

func (d *decoder) options(o *rewardmodel.Options) error {
	return d.object(func(name string) (err error) {
		switch name {
		case "reward":
			err = readText(d, &o.Reward)
		case "aggregate":
			err = readText(d, &o.Aggregate)
		case "offset_unit":
			err = readText(d, &o.OffsetUnit)
		case "reasoning":
			err = readText(d, &o.Reasoning)
		case "instances":
			o.Instances, err = d.boolean()
		case "top_k":
			o.TopK, err = d.integer()
		case "aspects":
			var aspects *bool
			if aspects, err = d.boolean(); err == nil {
				o.Aspects = *aspects
			}
		case "combination":
			err = readText(d, &o.Combination)
		case "weights":
			o.Weights, err = d.weights()
		case "dense":
			err = readText(d, &o.Dense)
		case "gamma":
			o.Gamma, err = d.number()
		case "tokenizer":
			if err = readText(d, &o.Tokenizer); err == nil {
				err = rewardmodel.CheckName(d.path(), o.Tokenizer)
			}
		default:
			return rewardmodel.Invalidf(d.path(), "is not an option; the options are reward, aggregate, offset_unit, instances, top_k, reasoning, aspects, combination, weights, dense, gamma, tokenizer")
		}
		return err
	})
}

// weights reads the weights of aspects.
func (d *decoder) weights() (map[string]float64, error) {
	weights, field := map[string]float64{}, d.path()
	err := d.object(func(name string) error {
		if len(weights) == rewardmodel.MaxAspects {
			return rewardmodel.Invalidf(field, "has more than %d aspects; no model has so many", rewardmodel.MaxAspects)
		}
		w, err := d.number()
		if err == nil {
			weights[name] = *w
		}
		return err
	})
	return weights, err
}

// readText reads a value of an enumeration. The empty string, which is the default
// in Go, is not a valid value in JSON.
func readText[T ~string](d *decoder, value *T) error {
	text, err := d.text()
	if err == nil && text == "" {
		return rewardmodel.Invalidf(d.path(), "is empty; omit the option for its default")
	}
	*value = T(text)
	return err
}
