package bag

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/rewardmodel"
)

// record is a bag in the file format. Pointers distinguish absent from empty.
type record struct {
	ID         *string           `json:"id"`
	Label      *string           `json:"label,omitzero"`
	Labels     map[string]string `json:"labels,omitzero"`
	Prompt     string            `json:"prompt,omitzero"`
	Response   *string           `json:"response,omitzero"`
	Instances  []string          `json:"instances,omitzero"`
	Messages   []Message         `json:"messages,omitzero"`
	Comparison string            `json:"comparison,omitzero"`
	Rater      string            `json:"rater,omitzero"`
	Time       *time.Time        `json:"time,omitzero"`
	Witness    *int              `json:"witness,omitzero"`
	Spans      [][]int           `json:"spans,omitzero"`
}

// need is the set of required fields of a bag.
type need bool

const (
	whole     need = true
	labelOnly need = false // its id and text are known from elsewhere
)

// FieldError is an error in one bag.
type FieldError struct {
	Field string // path of the offending field ("messages/0/role"), "" when it is not a JSON object
	Err   error
}

// Error names the field and the problem.
func (e *FieldError) Error() string {
	if e.Field == "" {
		return e.Err.Error()
	}
	return fmt.Sprintf("%s: %v", e.Field, e.Err)
}

// Unwrap returns the problem; it wraps the error of package jsontext if the JSON
// is invalid.
func (e *FieldError) Unwrap() error { return e.Err }

// Decode returns the bag of one JSON object, in the format of a line of a bag file.
// It ignores unknown fields, and treats null as absent. The error is a *FieldError.
func Decode(line []byte) (Bag, error) { return decodeOne(line, whole) }

// DecodeLabel is Decode for a bag whose id and text may be missing, because
// they are known from elsewhere.
func DecodeLabel(line []byte) (Bag, error) { return decodeOne(line, labelOnly) }

func decodeOne(line []byte, n need) (Bag, error) {
	b, field, err := decode(line, n)
	if err != nil {
		return Bag{}, &FieldError{Field: field, Err: err}
	}
	return b, nil
}

// decode returns the bag of one line, or the invalid field and why.
func decode(line []byte, n need) (Bag, string, error) {
	var rec record
	if err := json.Unmarshal(line, &rec); err != nil {
		var semantic *json.SemanticError
		if errors.As(err, &semantic) {
			return Bag{}, fieldOf(semantic.JSONPointer), wrongType(semantic)
		}
		return Bag{}, "", fmt.Errorf("is not valid JSON: %w", err)
	}
	if field, err := rec.check(n); err != nil {
		return Bag{}, field, err
	}
	b := Bag{
		Instances: rec.Instances, Messages: rec.Messages,
		Prompt: rec.Prompt, Comparison: rec.Comparison, Rater: rec.Rater, Time: rec.Time, Witness: rec.Witness,
	}
	if rec.ID != nil {
		b.ID = *rec.ID
	}
	if rec.Label != nil {
		b.Label = Label(*rec.Label)
	}
	if rec.Labels != nil {
		b.Labels = make(map[string]Label, len(rec.Labels))
	}
	for aspect, label := range rec.Labels {
		b.Labels[aspect] = Label(label)
	}
	if rec.Response != nil {
		b.Response = *rec.Response
	}
	if rec.Spans != nil {
		b.Spans = make([][2]int, len(rec.Spans))
		for i, span := range rec.Spans {
			b.Spans[i] = [2]int(span)
		}
	}
	return b, "", nil
}

// wrongType describes a type error in terms of JSON.
func wrongType(err *json.SemanticError) error {
	if err.GoType == reflect.TypeFor[time.Time]() && err.JSONKind == '"' {
		return errors.New(`has the wrong type: it is not a timestamp; give RFC 3339, such as "2026-01-31T12:00:00Z"`)
	}
	got, ok := map[jsontext.Kind]string{
		'n': "null", 't': "true", 'f': "false", '"': "a string", '0': "a number", '{': "an object", '[': "a list",
	}[err.JSONKind]
	if !ok || err.GoType == nil {
		return fmt.Errorf("has the wrong type: %w", err)
	}
	want := "an object"
	switch t := err.GoType; {
	case t.Kind() == reflect.String || t == reflect.TypeFor[time.Time]():
		want = "a string"
	case t.Kind() == reflect.Slice:
		want = "a list"
	case t.Kind() == reflect.Int:
		want = "an integer"
	}
	return fmt.Errorf("has the wrong type: give %s, not %s", want, got)
}

func fieldOf(pointer jsontext.Pointer) string {
	return strings.TrimPrefix(string(pointer), "/")
}

// check returns the first field that breaks the format, and how.
func (r record) check(n need) (string, error) {
	if n == whole && (r.ID == nil || *r.ID == "") {
		return "id", errors.New("is missing; give every bag a non-empty id")
	}
	if field, err := r.checkLabels(); err != nil {
		return field, err
	}
	if n := len(r.Comparison); n > rewardmodel.MaxName {
		return "comparison", fmt.Errorf("has %d bytes; use at most %d", n, rewardmodel.MaxName)
	}
	if field, err := r.checkText(n); err != nil {
		return field, err
	}
	return r.checkGold()
}

func (r record) checkLabels() (string, error) {
	known := func(label string) error {
		if l := Label(label); l != Compliant && l != Violation {
			return fmt.Errorf(`is %q; give "compliant" or "violation"`, label)
		}
		return nil
	}
	if r.Label == nil && r.Labels == nil {
		return "label", errors.New(`is missing; give "compliant" or "violation"`)
	}
	if r.Label != nil {
		if err := known(*r.Label); err != nil {
			return "label", err
		}
	}
	if r.Labels != nil && len(r.Labels) == 0 {
		return "labels", errors.New(`are empty; give {"ASPECT":"compliant" or "violation"}`)
	}
	if len(r.Labels) > rewardmodel.MaxAspects {
		return "labels", fmt.Errorf("name %d aspects; a model has at most %d", len(r.Labels), rewardmodel.MaxAspects)
	}
	for _, aspect := range slices.Sorted(maps.Keys(r.Labels)) {
		if err := rewardmodel.CheckAspect(aspect); err != nil {
			return "labels", err
		}
		if err := known(r.Labels[aspect]); err != nil {
			return "labels/" + aspect, err
		}
	}
	return "", nil
}

func (r record) checkText(n need) (string, error) {
	given := 0
	for _, is := range []bool{r.Response != nil, r.Instances != nil, r.Messages != nil} {
		if is {
			given++
		}
	}
	switch {
	case given == 0 && n == labelOnly:
		return "", nil
	case given == 0:
		return "response", errors.New(`is missing; give exactly one of "response", "instances" and "messages"`)
	case given > 1:
		return "response", errors.New(`is given twice; give exactly one of "response", "instances" and "messages"`)
	case r.Instances != nil && len(r.Instances) == 0:
		return "instances", errors.New("is empty; give at least one instance")
	case r.Messages == nil:
		return "", nil
	}
	answered := false
	for i, m := range r.Messages {
		if m.Role == "" {
			return fmt.Sprintf("messages/%d/role", i), errors.New(`is missing; give "user" or "assistant"`)
		}
		answered = answered || m.Role == roleAssistant
	}
	if !answered {
		return "messages", errors.New(`hold no message of role "assistant"; there is nothing to judge`)
	}
	return "", nil
}

func (r record) checkGold() (string, error) {
	if w := r.Witness; w != nil && (*w < 0 || r.Instances != nil && *w >= len(r.Instances)) {
		return "witness", fmt.Errorf("is %d; give an index of an instance, counted from 0", *w)
	}
	if len(r.Spans) == 0 {
		return "", nil
	}
	if r.Response == nil {
		return "spans", errors.New(`need a "response" that they index`)
	}
	length := utf8.RuneCountInString(*r.Response)
	for i, s := range r.Spans {
		if len(s) != 2 || s[0] < 0 || s[0] >= s[1] || s[1] > length {
			return fmt.Sprintf("spans/%d", i),
				fmt.Errorf("is %v; give [start,end] in code points, 0 <= start < end <= %d", s, length)
		}
	}
	return "", nil
}
