package rewardmodel

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits bounds what a request may hold. A field that is zero has its default.
type Limits struct {
	MaxResponses int // responses of one request; default 8192
	MaxDepth     int // nesting of JSON, where any nesting is allowed at all; default 100
}

// The defaults of Limits.
const (
	DefaultMaxResponses = 8192
	DefaultMaxDepth     = 100
)

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
			req.Model, err = d.text()
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

// decoder reads JSON token by token. Its methods return an *InputError whose
// field is the path of the value that was read last.
type decoder struct {
	json   *jsontext.Decoder
	input  []byte
	limits Limits
}

func newDecoder(input []byte, limits Limits) *decoder {
	if limits.MaxResponses <= 0 {
		limits.MaxResponses = DefaultMaxResponses
	}
	if limits.MaxDepth <= 0 {
		limits.MaxDepth = DefaultMaxDepth
	}
	// A bytes.Buffer is parsed in place, without a copy of the input.
	return &decoder{json: jsontext.NewDecoder(bytes.NewBuffer(input)), input: input, limits: limits}
}

// document reads one object and makes sure that nothing follows it.
func (d *decoder) document(member func(name string) error) error {
	if err := d.object(member); err != nil {
		return err
	}
	_, err := d.json.ReadToken()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return d.broken(err)
	default:
		return invalid("", "there is more after the JSON object (byte %d); send one object", d.json.InputOffset())
	}
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
		if err := it.validate(d.path()); err != nil {
			return err
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
			it.ID, err = d.text()
		case "prompt":
			it.Prompt, err = d.text()
		case "response":
			var text string
			text, err = d.text()
			it.Response = &text
		case "messages":
			it.Messages, err = d.messages()
		case "instances":
			it.Instances, err = d.texts()
		case "metadata":
			it.Metadata, err = d.raw()
		default:
			err = d.skip()
		}
		return err
	}
}

func (d *decoder) messages() ([]Message, error) {
	messages := []Message{}
	err := d.list(func() error {
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
		default:
			return invalid(d.path(), "is not an option; the options are reward, aggregate, offset_unit, instances, top_k, reasoning")
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

func (d *decoder) texts() ([]string, error) {
	texts := []string{}
	err := d.list(func() error {
		text, err := d.text()
		texts = append(texts, text)
		return err
	})
	return texts, err
}

func (d *decoder) text() (string, error) {
	token, err := d.token('"', "a string")
	if err != nil {
		return "", err
	}
	return token.String(), nil
}

func (d *decoder) boolean() (*bool, error) {
	token, err := d.json.ReadToken()
	if err != nil {
		return nil, d.broken(err)
	}
	if kind := token.Kind(); kind != 't' && kind != 'f' {
		return nil, d.wrong("true or false", kind)
	}
	return new(token.Bool()), nil
}

func (d *decoder) integer() (*int, error) {
	token, err := d.token('0', "a whole number")
	if err != nil {
		return nil, err
	}
	digits := token.String()
	n, err := strconv.Atoi(digits)
	if err != nil {
		return nil, invalid(d.path(), "must be a whole number, got %.40s", digits)
	}
	return &n, nil
}

// object reads an object and calls member after each name; member reads the
// value.
func (d *decoder) object(member func(name string) error) error {
	if _, err := d.token('{', "an object"); err != nil {
		return err
	}
	for {
		token, err := d.json.ReadToken()
		if err != nil {
			return d.broken(err)
		}
		if token.Kind() == '}' {
			return nil
		}
		if err := member(token.String()); err != nil {
			return err
		}
	}
}

// list reads an array; element reads one value of it.
func (d *decoder) list(element func() error) error {
	if _, err := d.token('[', "a list"); err != nil {
		return err
	}
	for d.json.PeekKind() != ']' {
		if err := element(); err != nil {
			return err
		}
	}
	_, err := d.token(']', "the end of the list")
	return err
}

// raw returns the next value as it is written.
func (d *decoder) raw() (jsontext.Value, error) {
	start := d.json.InputOffset()
	if err := d.skip(); err != nil {
		return nil, err
	}
	value := bytes.TrimLeft(d.input[start:d.json.InputOffset()], ": \t\r\n")
	return bytes.Clone(value), nil // a slice would keep the whole body alive
}

// skip reads over the next value, whatever it is, but not however deep.
func (d *decoder) skip() error {
	depth := d.json.StackDepth()
	for {
		if _, err := d.json.ReadToken(); err != nil {
			return d.broken(err)
		}
		switch now := d.json.StackDepth(); {
		case now == depth:
			return nil
		case now > d.limits.MaxDepth:
			return invalid("", "nested deeper than %d levels at byte %d; flatten it", d.limits.MaxDepth, d.json.InputOffset())
		}
	}
}

func (d *decoder) token(want jsontext.Kind, name string) (jsontext.Token, error) {
	token, err := d.json.ReadToken()
	if err != nil {
		return token, d.broken(err)
	}
	if token.Kind() != want {
		return token, d.wrong(name, token.Kind())
	}
	return token, nil
}

func (d *decoder) wrong(want string, got jsontext.Kind) error {
	if got == 'n' {
		return invalid(d.path(), "must be %s, got null; leave the field out when there is no value", want)
	}
	names := map[jsontext.Kind]string{'{': "an object", '[': "a list", '"': "a string", '0': "a number", 't': "true", 'f': "false"}
	return invalid(d.path(), "must be %s, got %s", want, names[got])
}

// broken turns an error of the JSON grammar into one that says where and why.
func (d *decoder) broken(err error) error {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.As(err, &syntax):
		field := path(syntax.JSONPointer)
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return invalid(field, "is given twice in one object (byte %d); give it once", syntax.ByteOffset)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return invalid(field, "the JSON ends too early, at byte %d; send the whole object", len(d.input))
		}
		return invalid(field, "not valid JSON at byte %d: %s", syntax.ByteOffset, explain(syntax.Err))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		if len(bytes.TrimSpace(d.input)) == 0 {
			return invalid("", "there is no JSON, only nothing; send one object")
		}
		return invalid("", "the JSON ends too early, at byte %d; send the whole object", len(d.input))
	default:
		return invalid("", "not valid JSON: %v", err)
	}
}

func explain(err error) string {
	reason := strings.TrimPrefix(err.Error(), "jsontext: ")
	switch {
	case strings.Contains(reason, "UTF-8"):
		return "invalid UTF-8; encode the text as UTF-8"
	case strings.Contains(reason, "surrogate"):
		return reason + "; a \\u escape of a surrogate needs its other half"
	default:
		return reason
	}
}

// path is the path of the value that was read last.
func (d *decoder) path() string { return path(d.json.StackPointer()) }

// path renders a JSON pointer the way that clients write it:
// /responses/3/instances/0 is responses[3].instances[0].
func path(pointer jsontext.Pointer) string {
	var b strings.Builder
	for name := range pointer.Tokens() {
		switch _, err := strconv.Atoi(name); {
		case err == nil:
			fmt.Fprintf(&b, "[%s]", name)
		case b.Len() == 0:
			fmt.Fprintf(&b, "%.60s", name)
		default:
			fmt.Fprintf(&b, ".%.60s", name)
		}
	}
	return b.String()
}
