package feedback

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"assay/rewardmodel"
	"assay/rewardmodel/wire"
	"github.com/go-json-experiment/json/jsontext"
)

// maxMembers limits the members of the object around the items, of which all but
// two are ignored.
const maxMembers = 1000

// DefaultMaxItems is the default of Limits.MaxItems.
const DefaultMaxItems = 8192

// Limits limits one request. A zero field has its default.
type Limits struct {
	MaxItems     int // default 8192
	MaxInstances int // given instances and messages of all items; default rewardmodel.DefaultMaxInstances
}

// DecodeBytes is the maximum number of bytes that decoding a body and creating its
// records allocate.
func DecodeBytes(body []byte) int64 { return wire.DecodeBytes(body) + int64(len(body)) }

// Decode reads a batch of feedback:
//
//	{"batch_id":"b1","items":[{"id":"r1","label":"violation","response":"You fool."}]}
//
// An item is a bag in the format of package bag with an optional "response_id",
// which is the default of the item's id, and replaces the text if there is none. An
// invalid item, such as one with invalid UTF-8, becomes a Rejection, and the others
// are decoded. The error is a *rewardmodel.InputError for a body without any usable
// item.
func Decode(body []byte, limits Limits) (Batch, error) {
	in := &reader{json: lenient(body), body: body, batch: collector{limits: limits.withDefaults()}}
	if err := in.document(); err != nil {
		return Batch{}, err
	}
	return in.batch.Batch, nil
}

// DecodeLines is Decode for a batch with one item per line (application/x-ndjson).
// Blank lines are ignored. A line that is not a JSON object is a Rejection.
func DecodeLines(body []byte, limits Limits) (Batch, error) {
	c := collector{limits: limits.withDefaults()}
	for line := range bytes.Lines(body) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := c.add(line); err != nil {
			return Batch{}, err
		}
	}
	if c.count == 0 {
		return Batch{}, noItems("", "the body is empty; send at least one item")
	}
	return c.Batch, nil
}

func (l Limits) withDefaults() Limits {
	if l.MaxItems <= 0 {
		l.MaxItems = DefaultMaxItems
	}
	if l.MaxInstances <= 0 {
		l.MaxInstances = rewardmodel.DefaultMaxInstances
	}
	return l
}

// lenient reads syntactically valid JSON with any strings: one invalid item must
// not make the others unreadable.
func lenient(input []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(input), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}

// reader reads the object around the items.
type reader struct {
	json  *jsontext.Decoder
	body  []byte
	batch collector
}

func (r *reader) document() error {
	if err := r.open('{', "", "an object"); err != nil {
		return err
	}
	seen := map[string]bool{}
	for r.json.PeekKind() != '}' {
		token, err := r.json.ReadToken()
		if err != nil {
			return r.broken(err)
		}
		name := token.String()
		if len(seen) == maxMembers {
			return invalid(shorten(name), "is one of more than %d members of the object; send the batch without them", maxMembers)
		}
		if seen[name] {
			return invalid(shorten(name), "is given twice in one object (byte %d); give it once", r.json.InputOffset())
		}
		seen[name] = true
		if err := r.member(name); err != nil {
			return err
		}
	}
	if _, err := r.json.ReadToken(); err != nil {
		return r.broken(err)
	}
	switch _, err := r.json.ReadToken(); {
	case err == nil:
		return invalid("", "there is data after the JSON object (byte %d); send one object", r.json.InputOffset())
	case !errors.Is(err, io.EOF):
		return r.broken(err)
	case !seen["items"]:
		return invalid("items", `is missing; send {"items":[{"id":"...","label":"...","response":"..."}]}`)
	case r.batch.count == 0:
		return noItems("items", "the list is empty; send at least one item")
	}
	return nil
}

func (r *reader) member(name string) error {
	if name == "items" {
		return r.items()
	}
	value, err := r.json.ReadValue()
	if err != nil {
		return r.broken(err)
	}
	if tooDeep(value, wire.DefaultMaxDepth-1) {
		return invalid(shorten(name), "is nested deeper than %d levels; flatten it", wire.DefaultMaxDepth)
	}
	// Unknown fields are ignored, but invalid text in them is an error.
	var text string
	if err := strict(value, &text); err != nil {
		fault := wire.SyntaxError(value, err)
		return invalid(joinPath(shorten(name), fault.Field), "%s", fault.Message)
	}
	if name == "batch_id" {
		if value.Kind() != '"' {
			return wrongType("batch_id", "a string", value.Kind())
		}
		if err := rewardmodel.CheckName("batch_id", text); err != nil {
			return err
		}
		r.batch.ID = text
	}
	return nil
}

// strict returns an error if the value has invalid text or duplicate names. It
// stores a string in text.
func strict(value jsontext.Value, text *string) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(value))
	if value.Kind() != '"' {
		return d.SkipValue()
	}
	token, err := d.ReadToken()
	if err == nil {
		*text = token.String()
	}
	return err
}

func (r *reader) items() error {
	if err := r.open('[', "items", "a list"); err != nil {
		return err
	}
	for r.json.PeekKind() != ']' {
		value, err := r.json.ReadValue()
		if err != nil {
			return r.broken(err)
		}
		if err := r.batch.add(value); err != nil {
			return err
		}
	}
	if _, err := r.json.ReadToken(); err != nil {
		return r.broken(err)
	}
	return nil
}

func (r *reader) open(kind jsontext.Kind, field, want string) error {
	token, err := r.json.ReadToken()
	if err != nil {
		return r.broken(err)
	}
	if token.Kind() != kind {
		return wrongType(field, want, token.Kind())
	}
	return nil
}

func (r *reader) broken(err error) error { return wire.SyntaxError(r.body, err) }

// collector sorts items into valid and rejected ones.
type collector struct {
	Batch
	limits       Limits
	count, parts int // items, and the instances and messages of all of them
}

// add returns an error only for too many items, or instances and messages.
func (c *collector) add(value []byte) error {
	if c.count == c.limits.MaxItems {
		return &rewardmodel.InputError{
			Kind: rewardmodel.KindTooLarge, Field: "items",
			Message: fmt.Sprintf("holds more than %d items; split the batch", c.limits.MaxItems),
		}
	}
	out := sketch(value, c.limits.MaxInstances-c.parts)
	if c.parts += out.parts; c.parts > c.limits.MaxInstances {
		return &rewardmodel.InputError{
			Kind: rewardmodel.KindTooLarge, Field: fmt.Sprintf("items[%d]", c.count),
			Message: fmt.Sprintf("brings the instances and messages of the batch to more than %d; split the batch", c.limits.MaxInstances),
		}
	}
	item, fault := decodeItem(value, out)
	if fault == nil {
		c.Items = append(c.Items, Entry{Index: c.count, Item: item})
	} else {
		fault.Index = c.count
		c.Rejected = append(c.Rejected, *fault)
	}
	c.count++
	return nil
}
