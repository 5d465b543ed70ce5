package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds that keep an untrusted header from using more memory than its size.
const (
	maxTensors    = 1 << 17
	maxDimensions = 16
)

// headerParser reads the JSON of a safetensors header token by token and keeps
// only what it needs.
type headerParser struct {
	decoder *jsontext.Decoder
	names   map[string]bool
	tensors []stored
}

// parseHeader decodes a header; offsets still count from its end.
func parseHeader(r io.Reader) ([]stored, error) {
	p := &headerParser{
		decoder: jsontext.NewDecoder(r, jsontext.AllowDuplicateNames(true)), // this parser detects them
		names:   map[string]bool{},
	}
	if err := p.object(p.tensor); err != nil {
		return nil, err
	}
	if _, err := p.decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("header: more than one JSON value: %w", ErrDamaged)
	}
	return p.tensors, nil
}

// object reads an object and calls member before each value.
func (p *headerParser) object(member func(name string) error) error {
	if _, err := p.token('{', "an object"); err != nil {
		return err
	}
	for p.decoder.PeekKind() != '}' {
		name, err := p.token('"', "a name")
		if err != nil {
			return err
		}
		if err := member(name.String()); err != nil {
			return err
		}
	}
	_, err := p.token('}', "the end of an object")
	return err
}

// token reads one token of a kind; what names it in the error.
func (p *headerParser) token(kind jsontext.Kind, what string) (jsontext.Token, error) {
	token, err := p.decoder.ReadToken()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err == nil && token.Kind() != kind {
		err = fmt.Errorf("found %v instead of %s", token.Kind(), what)
	}
	if err != nil {
		return token, fmt.Errorf("header, byte %d: %.200s: %w", p.decoder.InputOffset(), err.Error(), ErrDamaged)
	}
	return token, nil
}

// tensor reads a member of the header.
func (p *headerParser) tensor(name string) error {
	if p.names[name] {
		return fmt.Errorf("header: %.80q occurs twice: %w", name, ErrDamaged)
	}
	if len(p.names) == maxTensors {
		return fmt.Errorf("header names more than %d tensors: %w", maxTensors, ErrDamaged)
	}
	p.names[name] = true
	if name == "__metadata__" {
		return p.object(func(string) error {
			_, err := p.token('"', "a string")
			return err
		})
	}

	var dtype DType
	var shape, offsets []int64
	seen := map[string]bool{}
	err := p.object(func(field string) (err error) {
		known := field == "dtype" || field == "shape" || field == "data_offsets"
		if known && seen[field] {
			return fmt.Errorf("header: tensor %.80q: %s occurs twice: %w", name, field, ErrDamaged)
		}
		switch field {
		case "dtype":
			var token jsontext.Token
			if token, err = p.token('"', "a string"); err == nil {
				dtype = DType(token.String())
			}
		case "shape":
			shape, err = p.numbers(maxDimensions)
		case "data_offsets":
			offsets, err = p.numbers(2)
		default: // of a later version
			if err = p.decoder.SkipValue(); err != nil {
				err = fmt.Errorf("header: %.200s: %w", err.Error(), ErrDamaged)
			}
		}
		if known {
			seen[field] = true
		}
		return err
	})
	if err != nil {
		return err
	}
	t, err := newStored(name, dtype, shape, offsets)
	if err != nil {
		return err
	}
	p.tensors = append(p.tensors, t)
	return nil
}

// numbers reads an array of at most limit integers; it is never nil.
func (p *headerParser) numbers(limit int) ([]int64, error) {
	if _, err := p.token('[', "an array"); err != nil {
		return nil, err
	}
	list := []int64{}
	for p.decoder.PeekKind() != ']' {
		token, err := p.token('0', "a number")
		if err != nil {
			return nil, err
		}
		n, err := token.Int()
		if err != nil || len(list) == limit {
			return nil, fmt.Errorf("header, byte %d: not an array of at most %d integers: %w", p.decoder.InputOffset(), limit, ErrDamaged)
		}
		list = append(list, n)
	}
	_, err := p.token(']', "the end of an array")
	return list, err
}

// newStored validates a tensor's offsets against its shape and type.
func newStored(name string, dtype DType, shape, offsets []int64) (stored, error) {
	damaged := func(format string, args ...any) (stored, error) {
		return stored{}, fmt.Errorf("tensor %.80q: %s: %w", name, fmt.Sprintf(format, args...), ErrDamaged)
	}
	size := int64(dtype.Size())
	if size == 0 {
		return damaged("unknown dtype %.20q", string(dtype))
	}
	if shape == nil {
		return damaged("shape is missing")
	}
	if len(offsets) != 2 {
		return damaged("data_offsets must be two numbers")
	}
	start, end := offsets[0], offsets[1]
	if start < 0 || end < start {
		return damaged("data_offsets [%d,%d] are not a range", start, end)
	}
	dims := make([]int, len(shape))
	for i, n := range shape {
		if n < 0 || int64(int(n)) != n {
			return damaged("shape %v has an impossible dimension", shape)
		}
		dims[i] = int(n)
	}
	if slices.Contains(shape, 0) {
		size = 0
	}
	for _, n := range shape {
		if size > 0 && size > math.MaxInt64/n {
			return damaged("shape %v is too large", shape)
		}
		size *= n
	}
	if end-start != size {
		return damaged("data_offsets span %d bytes, but shape %v of %s takes %d", end-start, shape, dtype, size)
	}
	return stored{name: name, dtype: dtype, shape: dims, start: start, end: end}, nil
}
