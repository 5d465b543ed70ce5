package adapter

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
	"assay/rewardmodel"
	"assay/rewardmodel/wire"
)

// Read reads a JSON body of another project into a struct; see [Decode].
func Read(w http.ResponseWriter, r *http.Request, into any, types ...*json.Unmarshalers) error {
	body, _, err := httpjson.ReadBody(w, r, httpjson.JSON)
	if err != nil {
		return err
	}
	return Decode(exchange.Of(r), body, into, types...)
}

// Decode decodes a body after its cost is charged. Members that the struct does
// not name are ignored: these protocols grow. No list of texts becomes longer
// than the responses that a request may hold: elements are counted as they are
// read. types decode further types of the protocol.
func Decode(x *exchange.Exchange, body []byte, into any, types ...*json.Unmarshalers) error {
	if err := x.Memory.Grow(wire.DecodeBytes(body)); err != nil {
		return err
	}
	lists := Lists{Limit: x.Limits().MaxResponses()}
	known := json.JoinUnmarshalers(append(types,
		json.UnmarshalFromFunc(lists.Texts), json.UnmarshalFromFunc(lists.sparse), json.UnmarshalFromFunc(readName))...)
	err := json.Unmarshal(body, into, json.WithUnmarshalers(known))
	var semantic *json.SemanticError
	var input *rewardmodel.InputError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &input):
		if errors.As(err, &semantic) && input.Field == "" {
			input.Field = wire.FieldPath(semantic.JSONPointer)
		}
		return input
	case errors.As(err, &semantic):
		return failure.Invalid(wire.FieldPath(semantic.JSONPointer), "has the wrong type (JSON %v)", semantic.JSONKind)
	default:
		return wire.SyntaxError(body, err)
	}
}

type (
	// Texts are a string or a list of strings; null is no text.
	Texts []string
	// SparseTexts are a list of strings, of which some may be null.
	SparseTexts []string
	// Name identifies something, such as a model. It is echoed and logged, so
	// that its length is bounded.
	Name string
)

func readName(d *jsontext.Decoder, n *Name) error {
	if err := json.UnmarshalDecode(d, (*string)(n)); err != nil {
		return err
	}
	return rewardmodel.CheckName(wire.FieldPath(d.StackPointer()), string(*n))
}

// Lists decodes lists of texts of up to Limit elements.
type Lists struct{ Limit int }

// Texts decodes a string, a list of strings, or null.
func (l Lists) Texts(d *jsontext.Decoder, texts *Texts) (err error) {
	switch d.PeekKind() {
	case '"':
		var one string
		err = json.UnmarshalDecode(d, &one)
		*texts = Texts{one}
		return err
	case '[':
		*texts, err = l.Strings(d)
		return err
	case 'n':
		*texts = nil
		return d.SkipValue()
	}
	return WrongType(d, "must be a string or a list of strings")
}

func (l Lists) sparse(d *jsontext.Decoder, texts *SparseTexts) (err error) {
	if d.PeekKind() != '[' {
		return errors.ErrUnsupported
	}
	*texts, err = l.strings(d, true)
	return err
}

// Strings decodes a list of strings. Null is rejected: usually it is a mistake.
func (l Lists) Strings(d *jsontext.Decoder) ([]string, error) { return l.strings(d, false) }

// strings decodes a list of strings, where null may stand for an empty text.
func (l Lists) strings(d *jsontext.Decoder, sparse bool) ([]string, error) {
	field := wire.FieldPath(d.StackPointer())
	texts := []string{}
	err := l.Each(d, func(i int) error {
		token, err := d.ReadToken()
		if err != nil {
			return err
		}
		switch kind := token.Kind(); {
		case kind == '"':
			texts = append(texts, token.String())
		case kind == 'n' && sparse:
			texts = append(texts, "")
		case kind == 'n':
			return &rewardmodel.InputError{Field: field, Message: fmt.Sprintf("element %d is null; send a string", i)}
		default:
			return &rewardmodel.InputError{Field: fmt.Sprintf("%s[%d]", field, i), Message: fmt.Sprintf("has the wrong type (JSON %v)", kind)}
		}
		return nil
	})
	return texts, err
}

// Each decodes a list; read decodes one of its elements.
func (l Lists) Each(d *jsontext.Decoder, read func(i int) error) error {
	field := wire.FieldPath(d.StackPointer())
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for i := 0; d.PeekKind() != ']'; i++ {
		if i == l.Limit {
			return &rewardmodel.InputError{Kind: rewardmodel.KindTooLarge, Field: field,
				Message: fmt.Sprintf("holds more than %d elements; send at most %d per request", l.Limit, l.Limit)}
		}
		if err := read(i); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// AtMost decodes lists of type []T of up to limit elements.
func AtMost[T any](limit int) *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(d *jsontext.Decoder, list *[]T) error {
		if d.PeekKind() != '[' {
			return errors.ErrUnsupported
		}
		*list = []T{}
		return Lists{Limit: limit}.Each(d, func(int) error {
			var element T
			err := json.UnmarshalDecode(d, &element)
			*list = append(*list, element)
			return err
		})
	})
}

// WrongType skips a value of a type that the protocol does not allow there. The
// message of its error says what is allowed.
func WrongType(d *jsontext.Decoder, message string) error {
	field := wire.FieldPath(d.StackPointer())
	if err := d.SkipValue(); err != nil {
		return err
	}
	return &rewardmodel.InputError{Field: field, Message: message}
}
