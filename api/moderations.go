package api

import (
	"crypto/rand"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/rewardmodel"
)

// moderations adds OpenAI's moderation endpoint. The only category is
// violation: nothing is said about the others.
func (s *Server) moderations(a adapters) {
	a.post("/v1/moderations", "OpenAI moderation: flagged when not compliant", openAIFailure, s.moderate)
}

// openAIFailure is {"error":{"message","type","param","code"}} with a code in
// words.
func openAIFailure(f failure) (int, any) {
	type detail struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	}
	kind := "invalid_request_error"
	if f.status >= http.StatusInternalServerError {
		kind = "server_error"
	}
	return f.status, map[string]detail{"error": {f.text(), kind, f.param(), f.code}}
}

type moderationQuery struct {
	Model name             `json:"model"`
	Input moderationInputs `json:"input"`
}

// moderationInputs are texts: a string, a list of them, or the parts of one
// multi-modal input.
type moderationInputs []string

func (t textReader) moderationInputs(d *jsontext.Decoder, m *moderationInputs) error {
	switch d.PeekKind() {
	case '"':
		var one string
		err := json.UnmarshalDecode(d, &one)
		*m = moderationInputs{one}
		return err
	case 'n':
		return d.SkipValue()
	case '[':
		return t.moderationList(d, m)
	}
	return wrongForm(d, moderationForms)
}

const moderationForms = "must be a string, a list of strings, or the parts of one input"

func (t textReader) moderationList(d *jsontext.Decoder, m *moderationInputs) error {
	*m = moderationInputs{}
	var parts []textPart
	err := eachOf(d, t.limit, func(int) error {
		switch kind := d.PeekKind(); {
		case kind == '"' && parts == nil:
			var text string
			err := json.UnmarshalDecode(d, &text)
			*m = append(*m, text)
			return err
		case kind == '{' && len(*m) == 0:
			var part textPart
			err := json.UnmarshalDecode(d, &part)
			parts = append(parts, part)
			return err
		}
		return wrongForm(d, moderationForms)
	})
	if err != nil || parts == nil {
		return err
	}
	text, err := joinParts(parts)
	*m = moderationInputs{text}
	return err
}

type moderation struct {
	Flagged    bool                `json:"flagged"`
	Categories map[string]bool     `json:"categories"`
	Scores     map[string]float64  `json:"category_scores"`
	Applied    map[string][]string `json:"category_applied_input_types"`

	Witness *rewardmodel.Witness `json:"witness"` // in code points
}

func (s *Server) moderate(w http.ResponseWriter, r *http.Request) error {
	var ask moderationQuery
	if err := s.readForeign(w, r, &ask); err != nil {
		return err
	}
	if len(ask.Input) == 0 {
		return errInvalid("input", "is missing or empty; send a string or a list of strings")
	}
	items := make([]rewardmodel.Item, len(ask.Input))
	for i, text := range ask.Input {
		items[i] = response(text)
	}
	answer, err := s.rate(r.Context(), rewardmodel.Request{Responses: items, Model: s.pin(r.Context(), ask.Model)})
	if err != nil {
		return err
	}
	results := make([]moderation, len(answer.Results))
	for i, result := range answer.Results {
		results[i] = moderated(result)
	}
	return s.writeJSON(w, r, http.StatusOK, map[string]any{
		"id": "modr-" + rand.Text(), "model": servedName(ask.Model, answer), "results": results,
	})
}

// moderated flags what is not compliant. A text without anything to score has
// nothing to flag, whatever its reward is.
func moderated(result rewardmodel.Result) moderation {
	score := 1 - result.Reward
	if result.Empty {
		score = 0
	}
	flagged := !result.Compliant && !result.Empty
	return moderation{
		Flagged:    flagged,
		Categories: map[string]bool{labelViolation: flagged},
		Scores:     map[string]float64{labelViolation: score},
		Applied:    map[string][]string{labelViolation: {"text"}},
		Witness:    result.Witness,
	}
}
