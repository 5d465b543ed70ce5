package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"assay/rewardmodel/bag"
)

// Response is a scored response and what else is known about it.
type Response struct {
	ID         string
	Model      string  // version that scored it; "" if unknown
	Reward     float64 // on any scale; larger is more compliant
	Violation  float64 // in [0,1]
	Compliant  bool
	Witness    string // text of the most anomalous utterance; "" if unknown
	Utterances int    // 0 if unknown
	Truncated  bool
	Empty      bool

	Label  bag.Label         // what people said; "" if unknown
	Step   *float64          // of the policy's training; nil if unknown
	Fields map[string]string // by which the report groups
}

// line is a line of scored responses: a result of POST /v1/score or assay score, or a message of assay.v1.rewards.
type line struct {
	ID        string          `json:"id"`
	Model     json.RawMessage `json:"model"` // a name, or an object with the version
	Reward    *float64        `json:"reward"`
	Violation float64         `json:"violation"`
	Compliant bool            `json:"compliant"`
	Witness   *struct {
		Text string `json:"text"`
	} `json:"witness"`
	Instances []struct{} `json:"instances"`
	Truncated bool       `json:"truncated"`
	Empty     bool       `json:"empty"`
	known
}

// known is what a line may say about a response besides its score.
type known struct {
	Label    bag.Label      `json:"label"`
	Metadata map[string]any `json:"metadata"`
}

// Read reads scored responses, one JSON object per line. The error names the line.
func Read(r io.Reader) ([]Response, error) {
	var out []Response
	err := eachLine(r, func(text []byte) error {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		if l.Reward == nil {
			return errors.New("has no reward; give the output of assay score")
		}
		s := Response{
			ID: l.ID, Model: version(l.Model), Reward: *l.Reward, Violation: l.Violation, Compliant: l.Compliant,
			Utterances: len(l.Instances), Truncated: l.Truncated, Empty: l.Empty, Fields: map[string]string{},
		}
		if l.Witness != nil {
			s.Witness = l.Witness.Text
		}
		if err := s.learn(l.known); err != nil {
			return err
		}
		out = append(out, s)
		return nil
	})
	if err == nil && len(out) == 0 {
		err = errors.New("has no scored responses")
	}
	return out, err
}

// version is the version of a model that a line names in either form.
func version(text json.RawMessage) string {
	var info struct{ Version string }
	if json.Unmarshal(text, &info) == nil {
		return info.Version
	}
	var name string
	_ = json.Unmarshal(text, &name) // neither form: unknown
	return name
}

// reserved are the fields of a line of responses that no group is made of.
var reserved = []string{"id", "prompt", "response", "messages", "instances", "label", "labels", "metadata", "witness", "spans", "token_offsets"}

// Join adds what another file, with the responses that were scored or their labels, says about responses of the same
// id: label, metadata, and other fields with short values. It returns how many responses it knows.
func Join(responses []Response, r io.Reader) (joined int, err error) {
	at := make(map[string]int, len(responses))
	for i, s := range responses {
		at[s.ID] = i
	}
	err = eachLine(r, func(text []byte) error {
		var all map[string]any
		var l struct {
			ID string `json:"id"`
			known
		}
		if err := errors.Join(json.Unmarshal(text, &all), json.Unmarshal(text, &l)); err != nil {
			return err
		}
		i, ok := at[l.ID]
		if !ok {
			return nil
		}
		joined++
		maps.DeleteFunc(all, func(name string, _ any) bool { return slices.Contains(reserved, name) })
		maps.Copy(all, l.Metadata)
		l.Metadata = all
		return responses[i].learn(l.known)
	})
	return joined, err
}

// learn adds what a line says.
func (s *Response) learn(k known) error {
	switch k.Label {
	case bag.Violation, bag.Compliant:
		s.Label = k.Label
	case "":
	default:
		return fmt.Errorf("label is %q; give %q or %q", k.Label, bag.Violation, bag.Compliant)
	}
	for name, value := range k.Metadata {
		switch v := value.(type) {
		case float64:
			if name == "step" {
				s.Step = &v
				continue
			}
			s.Fields[name] = strconv.FormatFloat(v, 'g', -1, 64)
		case string:
			s.Fields[name] = v
		case bool:
			s.Fields[name] = strconv.FormatBool(v)
		}
	}
	return nil
}

// eachLine calls f for each line that is not blank.
func eachLine(r io.Reader, f func(text []byte) error) error {
	in := bufio.NewReaderSize(r, 1<<16)
	for n := 1; ; n++ {
		text, err := in.ReadBytes('\n')
		if text = bytes.TrimSpace(text); len(text) > 0 {
			if err := f(text); err != nil {
				return fmt.Errorf("line %d: %w", n, err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
