package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"assay/rewardmodel"
)

// decoder reads JSON token by token. Its methods return an *InputError whose
// field is the path of the most recently read value.
type decoder struct {
	json   *jsontext.Decoder
	input  []byte
	limits Limits
	parts  int // instances and messages of all responses so far
}

func newDecoder(input []byte, limits Limits) *decoder {
	if limits.MaxResponses <= 0 {
		limits.MaxResponses = rewardmodel.DefaultMaxResponses
	}
	if limits.MaxInstances <= 0 {
		limits.MaxInstances = rewardmodel.DefaultMaxInstances
	}
	if limits.MaxDepth <= 0 {
		limits.MaxDepth = DefaultMaxDepth
	}
	// A bytes.Buffer is parsed in place, without a copy of the input.
	return &decoder{json: jsontext.NewDecoder(bytes.NewBuffer(input)), input: input, limits: limits}
}

// document reads one object and checks that nothing follows it.
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
		return rewardmodel.Invalidf("", "there is data after the JSON object (byte %d); send one object", d.json.InputOffset())
	}
}

// count counts an instance or message before it is read.
func (d *decoder) count() error {
	if d.parts++; d.parts > d.limits.MaxInstances {
		return rewardmodel.TooManyInstances(d.path(), d.limits.MaxInstances)
	}
	return nil
}

func (d *decoder) instances() ([]string, error) {
	texts := []string{}
	err := d.list(func() error {
		if err := d.count(); err != nil {
			return err
		}
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

// name is a text that identifies something.
func (d *decoder) name() (string, error) {
	name, err := d.text()
	if err != nil {
		return "", err
	}
	return name, rewardmodel.CheckName(d.path(), name)
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
	token, err := d.token('0', "an integer")
	if err != nil {
		return nil, err
	}
	digits := token.String()
	n, err := strconv.Atoi(digits)
	if err != nil {
		return nil, rewardmodel.Invalidf(d.path(), "must be an integer, got %.40s", digits)
	}
	return &n, nil
}

func (d *decoder) number() (*float64, error) {
	token, err := d.token('0', "a number")
	if err != nil {
		return nil, err
	}
	x, err := token.Float()
	if err != nil {
		return nil, rewardmodel.Invalidf(d.path(), "must be in the range of a float64, got %.40s", token.String())
	}
	return &x, nil
}

// pairs reads a list of [start,end].
func (d *decoder) pairs() ([][2]int, error) {
	pairs := [][2]int{}
	err := d.list(func() error {
		var pair [2]int
		n := 0
		err := d.list(func() error {
			value, err := d.integer()
			if err == nil && n < len(pair) {
				pair[n] = *value
			}
			n++
			return err
		})
		if err == nil && n != len(pair) {
			return rewardmodel.Invalidf(d.path(), "has %d numbers; give [start,end]", n)
		}
		pairs = append(pairs, pair)
		return err
	})
	return pairs, err
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

// raw returns the next value verbatim.
func (d *decoder) raw() (jsontext.Value, error) {
	start := d.json.InputOffset()
	if err := d.skip(); err != nil {
		return nil, err
	}
	value := bytes.TrimLeft(d.input[start:d.json.InputOffset()], ": \t\r\n")
	return bytes.Clone(value), nil // a slice would keep the whole body alive
}

// skip skips the next value of any type, up to the maximum depth.
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
			return rewardmodel.Invalidf(path(d.json.StackPointer(), depth),
				"is nested deeper than %d levels (byte %d); flatten it", d.limits.MaxDepth, d.json.InputOffset())
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
		return rewardmodel.Invalidf(d.path(), "must be %s, got null; omit the field when there is no value", want)
	}
	names := map[jsontext.Kind]string{'{': "an object", '[': "a list", '"': "a string", '0': "a number", 't': "true", 'f': "false"}
	return rewardmodel.Invalidf(d.path(), "must be %s, got %s", want, names[got])
}

func (d *decoder) broken(err error) error { return syntaxError(d.input, err, d.limits.MaxDepth) }

// SyntaxError converts an error of package jsontext about input to one that says
// where and why the JSON is invalid.
func SyntaxError(input []byte, err error) *rewardmodel.InputError {
	return syntaxError(input, err, DefaultMaxDepth)
}

func syntaxError(input []byte, err error, levels int) *rewardmodel.InputError {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.As(err, &syntax):
		field := path(syntax.JSONPointer, levels)
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return rewardmodel.Invalidf(field, "is given twice in one object (byte %d); give it once", syntax.ByteOffset)
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return rewardmodel.Invalidf(field, "the JSON ends too early, at byte %d; send the whole object", len(input))
		}
		return rewardmodel.Invalidf(field, "not valid JSON at byte %d: %s", syntax.ByteOffset, explain(syntax.Err))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		if len(bytes.TrimSpace(input)) == 0 {
			return rewardmodel.Invalidf("", "is empty; send one JSON object")
		}
		return rewardmodel.Invalidf("", "the JSON ends too early, at byte %d; send the whole object", len(input))
	default:
		return rewardmodel.Invalidf("", "not valid JSON: %v", err)
	}
}

func explain(err error) string {
	reason := strings.TrimPrefix(err.Error(), "jsontext: ")
	switch {
	case strings.Contains(reason, "UTF-8"):
		return "the text is not valid UTF-8; encode it as UTF-8"
	case strings.Contains(reason, "surrogate"):
		return `a lone surrogate; a \u escape of a surrogate needs its other half`
	default:
		return reason
	}
}

// path is the path of the most recently read value.
func (d *decoder) path() string { return path(d.json.StackPointer(), d.limits.MaxDepth) }

// FieldPath renders a JSON pointer in the notation of clients:
// /items/3/messages/0 is items[3].messages[0].
func FieldPath(pointer jsontext.Pointer) string { return path(pointer, DefaultMaxDepth) }

// path renders at most the given levels of a JSON pointer in the notation of
// clients: /responses/3/instances/0 is responses[3].instances[0].
func path(pointer jsontext.Pointer, levels int) string {
	var b strings.Builder
	for name := range pointer.Tokens() {
		if levels--; levels < 0 {
			break
		}
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
