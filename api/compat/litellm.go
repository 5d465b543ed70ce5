package compat

import (
	"fmt"
	"net/http"
	"unicode/utf8"

	"assay/api/internal/adapter"
	"assay/api/internal/exchange"
	"assay/api/internal/httpjson"
	"assay/rewardmodel"
	"assay/segmenter"
)

// litellm serves the generic guardrail API of LiteLLM. It defines no error format, so
// that assay's own is used: LiteLLM treats 502, 503 and 504 as unreachable and every
// other error as a failure, and by default blocks on both.
//
// It never returns the action GUARDRAIL_INTERVENED, which replaces texts: LiteLLM
// discards the replacement in most of its streams and shows the original.
type litellm struct{ backend adapter.Backend }

func (p litellm) routes() []httpjson.Route {
	return []httpjson.Route{
		httpjson.Post("/beta/litellm_basic_guardrail_api", "LiteLLM guardrail: blocks what is not compliant", nil, p.guard),
	}
}

// guardrailQuery has the texts of the messages of a request, or those of a response,
// one for each choice. Of a response that is streamed, LiteLLM sends all the text
// that has arrived, again and again. Images, tools and tool calls are not scored.
type guardrailQuery struct {
	Texts     adapter.Texts `json:"texts"`
	InputType string        `json:"input_type"`
}

// guardrailResponse is the InputType of what a model has written.
const guardrailResponse = "response"

const (
	guardrailNone    = "NONE"
	guardrailBlocked = "BLOCKED"
)

type guardrailVerdict struct {
	Action string `json:"action"`
	// BlockedReason is shown to the client of LiteLLM, so that it does not quote.
	BlockedReason string `json:"blocked_reason,omitempty"`
	// Holdback is how many code points at the end of each text a stream must not
	// show yet: those after the last utterance that no later text can change.
	// LiteLLM shows them when the stream has ended.
	Holdback []int `json:"stream_holdback_chars,omitempty"`
}

func (p litellm) guard(w http.ResponseWriter, r *http.Request) error {
	var ask guardrailQuery
	if err := adapter.Read(w, r, &ask); err != nil {
		return err
	}
	verdict, err := p.judge(r, ask)
	if err != nil {
		return err
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, verdict)
}

func (p litellm) judge(r *http.Request, ask guardrailQuery) (guardrailVerdict, error) {
	verdict := guardrailVerdict{Action: guardrailNone}
	if len(ask.Texts) == 0 {
		return verdict, nil
	}
	instances := false
	request := rewardmodel.Request{Options: rewardmodel.Options{Instances: &instances}}
	for _, text := range ask.Texts {
		request.Responses = append(request.Responses, adapter.Response(text))
	}
	answer, err := adapter.Score(r.Context(), p.backend, request)
	if err != nil {
		return guardrailVerdict{}, err
	}
	for i, result := range answer.Results {
		if !result.Compliant && !result.Empty {
			return guardrailVerdict{Action: guardrailBlocked, BlockedReason: blockedReason(result, answer.Model)}, nil
		}
		if result.Truncated { // nobody knows whether the rest is compliant
			return guardrailVerdict{Action: guardrailBlocked, BlockedReason: tooLong}, nil
		}
		if ask.InputType == guardrailResponse {
			open, err := openCodePoints(r, ask.Texts[i])
			if err != nil {
				return guardrailVerdict{}, err
			}
			verdict.Holdback = append(verdict.Holdback, open)
		}
	}
	return verdict, nil
}

// tooLong blocks like a violation. An error would be a 413, which LiteLLM blocks by default
// but with a message that does not say why.
const tooLong = "assay: the text has more utterances than are scored"

func blockedReason(result rewardmodel.Result, model rewardmodel.ModelInfo) string {
	rule := ""
	if result.Aspect != "" {
		rule = " of " + result.Aspect
	}
	return fmt.Sprintf("assay: the violation%s is %.3f, above the threshold %.3f of %s %s",
		rule, result.Violation, result.Threshold, model.Name, model.Version)
}

// openCodePoints returns the length of the text after the last utterance that no
// later text can change, in code points.
func openCodePoints(r *http.Request, text string) (int, error) {
	if err := exchange.Of(r).Memory.Grow(int64(len(text))); err != nil {
		return 0, err
	}
	var stream segmenter.Stream
	utterances, err := stream.Feed(r.Context(), text)
	if n := len(utterances); n > 0 {
		text = text[utterances[n-1].End:]
	}
	return utf8.RuneCountInString(text), err
}
