package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// decode parses a message of the upstream into the fields that the proxy knows, and
// ignores the others. A name that occurs twice is an error: readers differ in which
// value they take.
func decode(data []byte, into any) error {
	if err := json.Unmarshal(data, into, jsontext.AllowInvalidUTF8(true)); err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	return nil
}

func encode(value any) []byte {
	b, err := json.Marshal(value, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err != nil {
		// Only a non-finite number has no JSON, and those of the upstream were JSON.
		return []byte("null")
	}
	return b
}

// plain is a text that must be a string or null.
type plain struct {
	set  bool // not null
	text string
}

// textOf is a string.
func textOf(s string) plain { return plain{true, s} }

// UnmarshalJSON rejects everything but a string and null, for example a list of parts.
func (p *plain) UnmarshalJSON(data []byte) error {
	switch kind := jsontext.Value(data).Kind(); kind {
	case 'n':
		*p = plain{}
		return nil
	case '"':
		p.set = true
		return json.Unmarshal(data, &p.text, jsontext.AllowInvalidUTF8(true))
	default:
		return fmt.Errorf("a text is neither a string nor null but %v", kind)
	}
}

// MarshalJSON writes the string, or null.
func (p plain) MarshalJSON() ([]byte, error) {
	if !p.set {
		return []byte("null"), nil
	}
	return json.Marshal(p.text, jsontext.AllowInvalidUTF8(true))
}

// IsZero omits null.
func (p plain) IsZero() bool { return !p.set }

// numbers is a value without strings, such as usage.
type numbers jsontext.Value

// UnmarshalJSON makes a value with strings null.
func (n *numbers) UnmarshalJSON(data []byte) error {
	*n = nil
	if d := jsontext.NewDecoder(bytes.NewReader(data)); !onlyNumbers(d) {
		return nil
	}
	*n = append(numbers{}, data...)
	return nil
}

func onlyNumbers(d *jsontext.Decoder) bool {
	for {
		token, err := d.ReadToken()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		_, length := d.StackIndex(d.StackDepth())
		name := length%2 == 1 && d.StackDepth() > 0
		if kind, _ := d.StackIndex(d.StackDepth()); token.Kind() == '"' && !(kind == '{' && name) {
			return false
		}
	}
}

// MarshalJSON writes the value, or null.
func (n numbers) MarshalJSON() ([]byte, error) {
	if n.IsZero() {
		return []byte("null"), nil
	}
	return n, nil
}

// IsZero omits null.
func (n numbers) IsZero() bool { return len(n) == 0 || string(n) == "null" }

// raw is a value that passes unchanged.
type raw jsontext.Value

// UnmarshalJSON copies the value.
func (r *raw) UnmarshalJSON(data []byte) error {
	*r = append(raw{}, data...)
	return nil
}

// MarshalJSON writes the value, or null.
func (r raw) MarshalJSON() ([]byte, error) {
	if r.IsZero() {
		return []byte("null"), nil
	}
	return r, nil
}

// IsZero omits null.
func (r raw) IsZero() bool { return len(r) == 0 || string(r) == "null" }

// settings is an object that passes unchanged. Another value becomes null: it could be a
// text of the model.
type settings jsontext.Value

// UnmarshalJSON makes a value that is not an object null.
func (s *settings) UnmarshalJSON(data []byte) error {
	*s = nil
	if jsontext.Value(data).Kind() == '{' {
		*s = append(settings{}, data...)
	}
	return nil
}

// MarshalJSON writes the object, or null.
func (s settings) MarshalJSON() ([]byte, error) { return raw(s).MarshalJSON() }

// IsZero omits null.
func (s settings) IsZero() bool { return raw(s).IsZero() }
