package bag

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// LineError says what is wrong with one line of a bag file.
type LineError struct {
	Line  int    // counted from 1
	Field string // path of the offending field ("messages/0/role"), "" when the line is no JSON object
	Err   error
}

// Error names the line, the field and the fault, in this order.
func (e *LineError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("line %d: %v", e.Line, e.Err)
	}
	return fmt.Sprintf("line %d: %s: %v", e.Line, e.Field, e.Err)
}

// Unwrap returns the fault itself.
func (e *LineError) Unwrap() error { return e.Err }

// Read yields the bags of a JSONL stream, whose lines may be of any length.
// Blank lines are skipped and unknown fields ignored. A bad line yields a
// *LineError; the sequence goes on with the next line when the caller does, so
// that a caller may report and skip it. A failing r ends the sequence with its
// error.
func Read(r io.Reader) iter.Seq2[Bag, error] {
	return func(yield func(Bag, error) bool) {
		buffered := bufio.NewReaderSize(r, 1<<16)
		for line := 1; ; line++ {
			text, err := buffered.ReadBytes('\n')
			if err != nil && err != io.EOF {
				yield(Bag{}, fmt.Errorf("line %d: %w", line, err))
				return
			}
			if text = bytes.TrimSpace(text); len(text) > 0 {
				b, field, fault := decode(text)
				if fault != nil {
					fault = &LineError{Line: line, Field: field, Err: fault}
				}
				if !yield(b, fault) {
					return
				}
			}
			if err == io.EOF {
				return
			}
		}
	}
}

// record is a bag as it stands in the file. Pointers tell "absent" from "empty".
type record struct {
	ID        *string    `json:"id"`
	Label     *string    `json:"label"`
	Prompt    string     `json:"prompt,omitzero"`
	Response  *string    `json:"response,omitzero"`
	Instances []string   `json:"instances,omitzero"`
	Messages  []Message  `json:"messages,omitzero"`
	Rater     string     `json:"rater,omitzero"`
	Time      *time.Time `json:"time,omitzero"`
	Witness   *int       `json:"witness,omitzero"`
	Spans     [][]int    `json:"spans,omitzero"`
}

// decode returns the bag of one line, or the field at fault and why.
func decode(line []byte) (Bag, string, error) {
	var rec record
	if err := json.Unmarshal(line, &rec); err != nil {
		var semantic *json.SemanticError
		if errors.As(err, &semantic) {
			return Bag{}, fieldOf(semantic.JSONPointer), fmt.Errorf("has the wrong type: %w", err)
		}
		return Bag{}, "", fmt.Errorf("is not valid JSON: %w", err)
	}
	if field, err := rec.check(); err != nil {
		return Bag{}, field, err
	}
	b := Bag{
		ID: *rec.ID, Label: Label(*rec.Label), Instances: rec.Instances, Messages: rec.Messages,
		Prompt: rec.Prompt, Rater: rec.Rater, Time: rec.Time, Witness: rec.Witness,
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

func fieldOf(pointer jsontext.Pointer) string {
	return strings.TrimPrefix(string(pointer), "/")
}

// check returns the first field that breaks the format, and how.
func (r record) check() (string, error) {
	if r.ID == nil || *r.ID == "" {
		return "id", errors.New("is missing; give every bag a non-empty id")
	}
	if r.Label == nil {
		return "label", errors.New(`is missing; give "compliant" or "violation"`)
	}
	if l := Label(*r.Label); l != Compliant && l != Violation {
		return "label", fmt.Errorf(`is %q; give "compliant" or "violation"`, *r.Label)
	}
	if field, err := r.checkText(); err != nil {
		return field, err
	}
	return r.checkGold()
}

func (r record) checkText() (string, error) {
	given := 0
	for _, is := range []bool{r.Response != nil, r.Instances != nil, r.Messages != nil} {
		if is {
			given++
		}
	}
	switch {
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
