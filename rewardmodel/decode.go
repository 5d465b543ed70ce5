package rewardmodel

import "fmt"

// Limits bounds what a request may hold. A field that is zero has its default.
type Limits struct {
	MaxResponses int // responses of one request; default 8192
	MaxInstances int // given instances and messages of all responses of one request; default 524288
	MaxDepth     int // nesting of JSON, where any nesting is allowed at all; default 100
}

// The defaults of Limits. The instances of a request cost up to about 700 bytes
// each, so that the largest request takes less than half of [DefaultMemory].
const (
	DefaultMaxResponses = 8192
	DefaultMaxInstances = 512 << 10
	DefaultMaxDepth     = 100
)

// MaxName is the longest that an identifier of a client's choice may be, in
// bytes: the id of a response, the name of a model, a tokenizer, a rater.
const MaxName = 512

// CheckName reports a name that is longer than MaxName.
func CheckName(field, name string) error {
	if len(name) > MaxName {
		return invalid(field, "has %d bytes; use at most %d", len(name), MaxName)
	}
	return nil
}

// DecodeRequest parses the body of a scoring request, strictly: it rejects
// invalid UTF-8, lone surrogates, duplicate names, nulls and wrong types,
// unknown values, unknown fields of options, and data after the object.
// Unknown fields elsewhere are ignored, so that newer clients still work.
// Every error is an *InputError.
func DecodeRequest(body []byte, limits Limits) (Request, error) {
	d := newDecoder(body, limits)
	var req Request
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
		return Request{}, err
	}
	if !seen {
		return Request{}, invalid("responses", `is missing; send {"responses":[{"response":"..."}]}`)
	}
	if err := req.Validate(); err != nil {
		return Request{}, err
	}
	return req, nil
}

// DecodeItem parses one item, such as a line of a JSONL file or a message of a
// stream, as strictly as DecodeRequest.
func DecodeItem(line []byte) (Item, error) {
	d := newDecoder(line, Limits{})
	var it Item
	if err := d.document(d.itemMember(&it)); err != nil {
		return Item{}, err
	}
	if err := it.Validate(); err != nil {
		return Item{}, err
	}
	return it, nil
}

func (d *decoder) items() ([]Item, error) {
	items := []Item{}
	err := d.list(func() error {
		if len(items) == d.limits.MaxResponses {
			return &InputError{
				Kind: KindTooLarge, Field: "responses",
				Message: fmt.Sprintf("holds more than %d responses; split the request", d.limits.MaxResponses),
			}
		}
		var it Item
		if err := d.object(d.itemMember(&it)); err != nil {
			return err
		}
		if err := it.validate(); err != nil {
			return err.within(d.path())
		}
		items = append(items, it)
		return nil
	})
	return items, err
}

func (d *decoder) itemMember(it *Item) func(string) error {
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

func (d *decoder) messages() ([]Message, error) {
	messages := []Message{}
	err := d.list(func() error {
		if err := d.count(); err != nil {
			return err
		}
		var m Message
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
			return invalid(d.path()+".role", `is missing; name who speaks, such as "assistant"`)
		case !content:
			return invalid(d.path()+".content", "is missing; give the text of the message")
		}
		messages = append(messages, m)
		return nil
	})
	return messages, err
}

func (d *decoder) options(o *Options) error {
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
		case "dense":
			err = readText(d, &o.Dense)
		case "gamma":
			o.Gamma, err = d.number()
		case "tokenizer":
			if err = readText(d, &o.Tokenizer); err == nil {
				err = CheckName(d.path(), o.Tokenizer)
			}
		default:
			return invalid(d.path(), "is not an option; the options are reward, aggregate, offset_unit, instances, top_k, reasoning, dense, gamma, tokenizer")
		}
		return err
	})
}

// readText reads an enumeration's value. The empty string, which stands for
// the default in Go, is not a value on the wire.
func readText[T ~string](d *decoder, value *T) error {
	text, err := d.text()
	if err == nil && text == "" {
		return invalid(d.path(), "is empty; leave the option out for its default")
	}
	*value = T(text)
	return err
}
