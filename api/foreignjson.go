package api

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/rewardmodel"
	"assay/rewardmodel/wire"
)

// readForeign reads a JSON body of another project into a struct. Members that
// the struct does not name are ignored: these protocols grow.
func (s *Server) readForeign(w http.ResponseWriter, r *http.Request, into any) error {
	body, _, err := s.readBody(w, r, mediaJSON)
	if err != nil {
		return err
	}
	return s.decodeForeign(exchangeOf(r).memory, body, into)
}

// decodeForeign decodes a body after its cost is charged. No list of texts in
// it becomes longer than a request may have responses: its elements are counted
// as they are read.
func (s *Server) decodeForeign(memory *rewardmodel.Reservation, body []byte, into any) error {
	if err := memory.Grow(wire.DecodeBytes(body)); err != nil {
		return err
	}
	texts := textReader{limit: s.maxResponses(), convs: s.conversations(memory)}
	err := json.Unmarshal(body, into, json.WithUnmarshalers(texts.unmarshalers()))
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
		return errInvalid(wire.FieldPath(semantic.JSONPointer), "has the wrong type (JSON %v)", semantic.JSONKind)
	default:
		return wire.SyntaxError(body, err)
	}
}

// The types of members that are texts in one form or another. textReader reads
// them.
type (
	// oneOrMany is a string or a list of strings; null is no text at all.
	oneOrMany []string
	// sparseTexts is a list of strings, of which some may be null.
	sparseTexts []string
	// name identifies something, such as a model. It is echoed and logged, so
	// that its length is bounded.
	name string
)

// textReader reads lists of texts, and counts while it reads.
type textReader struct {
	limit int
	convs *conversations
}

func (t textReader) unmarshalers() *json.Unmarshalers {
	return json.JoinUnmarshalers(
		json.UnmarshalFromFunc(t.oneOrMany),
		json.UnmarshalFromFunc(t.sparse),
		json.UnmarshalFromFunc(t.predictInputs),
		json.UnmarshalFromFunc(t.moderationInputs),
		json.UnmarshalFromFunc(t.sglangText),
		json.UnmarshalFromFunc(readName),
		atMost[inputTensor](maxTensors),
		atMost[askedTensor](maxTensors),
		atMost[int64](deepest), // dimensions
	)
}

func readName(d *jsontext.Decoder, n *name) error {
	if err := json.UnmarshalDecode(d, (*string)(n)); err != nil {
		return err
	}
	return rewardmodel.CheckName(wire.FieldPath(d.StackPointer()), string(*n))
}

// atMost reads a list of up to limit elements.
func atMost[T any](limit int) *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(d *jsontext.Decoder, list *[]T) error {
		if d.PeekKind() != '[' {
			return errors.ErrUnsupported
		}
		*list = []T{}
		return eachOf(d, limit, func(int) error {
			var element T
			err := json.UnmarshalDecode(d, &element)
			*list = append(*list, element)
			return err
		})
	})
}

// eachOf reads a list of up to limit elements; read reads one of them.
func eachOf(d *jsontext.Decoder, limit int, read func(i int) error) error {
	field := wire.FieldPath(d.StackPointer())
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for i := 0; d.PeekKind() != ']'; i++ {
		if i == limit {
			return &rewardmodel.InputError{Kind: rewardmodel.KindTooLarge, Field: field,
				Message: fmt.Sprintf("holds more than %d elements; send at most %d per request", limit, limit)}
		}
		if err := read(i); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// list reads a list of strings. Null is refused unless it may stand for an empty
// text: usually it is a mistake.
func (t textReader) list(d *jsontext.Decoder, sparse bool) ([]string, error) {
	field := wire.FieldPath(d.StackPointer())
	texts := []string{}
	err := eachOf(d, t.limit, func(i int) error {
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

func (t textReader) oneOrMany(d *jsontext.Decoder, o *oneOrMany) (err error) {
	switch d.PeekKind() {
	case '"':
		var one string
		err = json.UnmarshalDecode(d, &one)
		*o = oneOrMany{one}
		return err
	case '[':
		*o, err = t.list(d, false)
		return err
	case 'n':
		*o = nil
		return d.SkipValue()
	}
	return wrongForm(d, "must be a string or a list of strings")
}

func (t textReader) sparse(d *jsontext.Decoder, s *sparseTexts) (err error) {
	if d.PeekKind() != '[' {
		return errors.ErrUnsupported
	}
	*s, err = t.list(d, true)
	return err
}

func (t textReader) sglangText(d *jsontext.Decoder, s *sglangText) error {
	s.one = d.PeekKind() == '"'
	return t.oneOrMany(d, &s.texts)
}

// wrongForm reads over a value that has none of the forms that a message names.
func wrongForm(d *jsontext.Decoder, message string) error {
	field := wire.FieldPath(d.StackPointer())
	if err := d.SkipValue(); err != nil {
		return err
	}
	return &rewardmodel.InputError{Field: field, Message: message}
}

// content is the text of a chat message: a string, null, or a list of parts.
type content string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (c *content) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	switch d.PeekKind() {
	case '"':
		return json.UnmarshalDecode(d, (*string)(c))
	case '[':
		var parts []textPart
		if err := json.UnmarshalDecode(d, &parts); err != nil {
			return err
		}
		text, err := joinParts(parts)
		*c = content(text)
		return err
	case 'n':
		*c = ""
		return d.SkipValue()
	}
	if err := d.SkipValue(); err != nil {
		return err
	}
	return &rewardmodel.InputError{Message: "must be a string or a list of text parts"}
}

// textPart is one part of a message that OpenAI's multi-modal clients send.
type textPart struct {
	Type string  `json:"type"`
	Text *string `json:"text"`
}

// joinParts is the text of all parts. Anything but text cannot be scored.
func joinParts(parts []textPart) (string, error) {
	texts := make([]string, len(parts))
	for i, p := range parts {
		if p.Type != "text" && p.Type != "input_text" {
			return "", &rewardmodel.InputError{Message: fmt.Sprintf("part %d is of type %.40q; only text can be scored", i, p.Type)}
		}
		if p.Text == nil {
			return "", &rewardmodel.InputError{Message: fmt.Sprintf("part %d has no text; send a string", i)}
		}
		texts[i] = *p.Text
	}
	return strings.Join(texts, "\n"), nil
}
