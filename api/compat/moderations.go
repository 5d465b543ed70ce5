package compat

import (
	"crypto/rand"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/api/internal/adapter"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
	"assay/rewardmodel"
)

// moderations serves OpenAI's moderation endpoint. The only category is
// violation; the others are omitted.
type moderations struct{ backend adapter.Backend }

func (p moderations) routes() []httpjson.Route {
	return []httpjson.Route{
		httpjson.Post("/v1/moderations", "OpenAI moderation: flagged when not compliant", openAIFailure, p.moderate),
	}
}

// openAIFailure is {"error":{"message","type","param","code"}} with a textual
// code.
func openAIFailure(f failure.Failure) (int, any) {
	type detail struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	}
	kind := "invalid_request_error"
	if f.Status() >= http.StatusInternalServerError {
		kind = "server_error"
	}
	return f.Status(), map[string]detail{"error": {f.Text(), kind, f.Param(), string(f.Code)}}
}

type moderationQuery struct {
	Model adapter.Name     `json:"model"`
	Input moderationInputs `json:"input"`
}

// moderationInputs are texts: a string, a list of strings, or the parts of one
// multimodal input.
type moderationInputs []string

// readModerationInputs returns the decoder of moderationInputs.
func readModerationInputs(lists adapter.Lists) *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(d *jsontext.Decoder, m *moderationInputs) error { return moderationTexts(lists, d, m) })
}

func moderationTexts(lists adapter.Lists, d *jsontext.Decoder, m *moderationInputs) error {
	switch d.PeekKind() {
	case '"':
		var one string
		err := json.UnmarshalDecode(d, &one)
		*m = moderationInputs{one}
		return err
	case 'n':
		return d.SkipValue()
	case '[':
		return moderationList(lists, d, m)
	}
	return adapter.WrongType(d, moderationForms)
}

const moderationForms = "must be a string, a list of strings, or the parts of one input"

func moderationList(lists adapter.Lists, d *jsontext.Decoder, m *moderationInputs) error {
	*m = moderationInputs{}
	var parts []textPart
	err := lists.Each(d, func(int) error {
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
		return adapter.WrongType(d, moderationForms)
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

func (p moderations) moderate(w http.ResponseWriter, r *http.Request) error {
	var ask moderationQuery
	if err := adapter.Read(w, r, &ask, readModerationInputs(listsOf(r))); err != nil {
		return err
	}
	if len(ask.Input) == 0 {
		return failure.Invalid("input", "is missing or empty; send a string or a list of strings")
	}
	items := make([]rewardmodel.Item, len(ask.Input))
	for i, text := range ask.Input {
		items[i] = adapter.Response(text)
	}
	answer, err := adapter.ScorePinned(r.Context(), p.backend, ask.Model, items)
	if err != nil {
		return err
	}
	results := make([]moderation, len(answer.Results))
	for i, result := range answer.Results {
		results[i] = moderated(result)
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, map[string]any{
		"id": "modr-" + rand.Text(), "model": servedName(ask.Model, answer), "results": results,
	})
}

// moderated flags a response that is not compliant. A text without anything to
// score is never flagged, whatever its reward is.
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
