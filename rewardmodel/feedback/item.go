package feedback

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/wire"
	"github.com/go-json-experiment/json/jsontext"
)

// decodeItem returns the item of a value with the given outline, or its rejection,
// without the index.
func decodeItem(value []byte, out outline) (Item, *Rejection) {
	reject := func(code Code, field, message string) (Item, *Rejection) {
		return Item{}, &Rejection{ID: out.name(), Code: code, Message: fieldMessage(field, message)}
	}
	if tooDeep(value, wire.DefaultMaxDepth) {
		return reject(CodeInvalid, "", fmt.Sprintf("is nested deeper than %d levels; flatten it", wire.DefaultMaxDepth))
	}
	b, err := bag.DecodeLabel(value)
	var bad *bag.FieldError
	switch {
	case err == nil:
	case !errors.As(err, &bad):
		return reject(CodeInvalid, "", err.Error())
	default:
		if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
			fault := wire.SyntaxError(value, syntax)
			return reject(CodeInvalid, fault.Field, fault.Message)
		}
		return reject(CodeInvalid, wire.FieldPath(jsontext.Pointer("/"+bad.Field)), bad.Err.Error())
	}
	it := Item{Bag: b, ResponseID: out.responseID}
	for _, n := range []struct{ field, name string }{{"id", it.ID}, {"response_id", it.ResponseID}, {"rater", it.Rater}} {
		if err := rewardmodel.CheckName(n.field, n.name); err != nil {
			return reject(CodeInvalid, "", err.Error())
		}
	}
	switch {
	case b.Comparison != "":
		return reject(CodeInvalid, "comparison", `is not supported in feedback; give each response the label of your rule, or train with "assay train" on a bag file`)
	case out.wrongResponseID:
		return reject(CodeInvalid, "response_id", "has the wrong type: give a string")
	case it.ID == "" && it.ResponseID == "":
		return reject(CodeInvalid, "id", `is missing; give the response an id, or the "response_id" of a scored response`)
	case !out.text && it.ResponseID == "":
		return reject(CodeInvalid, "response",
			`is missing; give exactly one of "response", "instances" and "messages", or the "response_id" of a scored response`)
	case out.text && blank(b):
		return reject(CodeNoText, "", "the response has no utterance to learn from; omit the item")
	}
	if it.ID == "" {
		it.ID = it.ResponseID
	}
	return it, nil
}

// outline has the fields that can be read even of an invalid item.
type outline struct {
	id, responseID  string
	wrongResponseID bool // it is not a string
	text            bool // the item has a text
	parts           int  // number of its instances or messages
}

// name returns the ID for a rejection, shortened.
func (o outline) name() string {
	if o.id == "" {
		return rewardmodel.Shorten(o.responseID)
	}
	return rewardmodel.Shorten(o.id)
}

// sketch reads the outline of an item. It stops counting its parts beyond limit.
func sketch(value []byte, limit int) (o outline) {
	d := lenient(value)
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return o
	}
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			return o
		}
		name, kind := token.String(), d.PeekKind()
		switch {
		case kind == 'n':
		case kind == '"' && (name == "id" || name == "response_id"):
			token, err := d.ReadToken()
			if err != nil {
				return o
			}
			if name == "id" {
				o.id = token.String()
			} else {
				o.responseID = token.String()
			}
			continue
		case name == "response_id":
			o.wrongResponseID = true
		case name == "response" || name == "instances" || name == "messages":
			o.text = true
		}
		if kind == '[' && (name == "instances" || name == "messages") {
			n, err := countElements(d, limit-o.parts)
			if o.parts += n; err != nil || o.parts > limit {
				return o
			}
			continue
		}
		if err := d.SkipValue(); err != nil {
			return o
		}
	}
	return o
}

// countElements skips a list and counts its elements, up to limit+1.
func countElements(d *jsontext.Decoder, limit int) (n int, err error) {
	if _, err = d.ReadToken(); err != nil {
		return 0, err
	}
	for n = 0; d.PeekKind() != ']'; n++ {
		if n > limit {
			return n, nil
		}
		if err = d.SkipValue(); err != nil {
			return n, err
		}
	}
	_, err = d.ReadToken()
	return n, err
}

// blank reports whether the bag has no text to score.
func blank(b bag.Bag) bool {
	return !slices.ContainsFunc(b.Texts(), func(text string) bool { return strings.TrimSpace(text) != "" })
}

// tooDeep reports whether JSON is nested deeper than the given levels.
func tooDeep(value []byte, levels int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > levels {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}
