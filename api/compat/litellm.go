package compat

import (
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"assay/api/internal/adapter"
	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
	"assay/rewardmodel"
	"assay/segmenter"
)

// litellm serves the generic guardrail API of LiteLLM. It defines no error format, so
// that assay's own is used: LiteLLM treats 502, 503 and 504 as unreachable and every
// other error as a failure, and by default blocks on both.
type litellm struct{ backend adapter.Backend }

func (p litellm) routes() []httpjson.Route {
	return []httpjson.Route{
		httpjson.Post("/beta/litellm_basic_guardrail_api", "LiteLLM guardrail: blocks or redacts what is not compliant", nil, p.guard),
	}
}

// onViolationHeader is configured in the headers of the guardrail. The parameters of
// the protocol would also work, but clients of LiteLLM may override them.
const onViolationHeader = "X-On-Violation"

const (
	onViolationBlock  = "block"
	onViolationRedact = "redact"
)

// redaction replaces an utterance that violates.
const redaction = "[redacted]"

// guardrailQuery has the texts of the messages of a request, or those of a response,
// one for each choice. Of a response that is streamed, LiteLLM sends all the text
// that has arrived, again and again. Images, tools and tool calls are not scored.
type guardrailQuery struct {
	Texts     adapter.Texts `json:"texts"`
	InputType string        `json:"input_type"`
}

// inputResponse is the InputType of what a model has written.
const inputResponse = "response"

// guardrailAction is what LiteLLM does.
type guardrailAction string

const (
	actionNone      guardrailAction = "NONE"
	actionBlocked   guardrailAction = "BLOCKED"
	actionIntervene guardrailAction = "GUARDRAIL_INTERVENED" // use Texts instead
)

type guardrailVerdict struct {
	Action guardrailAction `json:"action"`
	// BlockedReason is shown to the client of LiteLLM, so that it does not quote.
	BlockedReason string   `json:"blocked_reason,omitempty"`
	Texts         []string `json:"texts,omitempty"`
	// Holdback is how many code points at the end of each text a stream must not
	// show yet: those of the utterance that is still open. LiteLLM shows them when
	// the stream has ended.
	Holdback []int `json:"stream_holdback_chars,omitempty"`
}

func (p litellm) guard(w http.ResponseWriter, r *http.Request) error {
	redact, err := redacts(r)
	if err != nil {
		return err
	}
	var ask guardrailQuery
	if err := adapter.Read(w, r, &ask); err != nil {
		return err
	}
	verdict := guardrailVerdict{Action: actionNone}
	if len(ask.Texts) > 0 {
		if verdict, err = p.judge(r, ask, redact); err != nil {
			return err
		}
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, verdict)
}

func redacts(r *http.Request) (bool, error) {
	switch value := r.Header.Get(onViolationHeader); value {
	case "", onViolationBlock:
		return false, nil
	case onViolationRedact:
		return true, nil
	default:
		return false, failure.Invalid(onViolationHeader, "is %q; use %s or %s", value, onViolationBlock, onViolationRedact)
	}
}

func (p litellm) judge(r *http.Request, ask guardrailQuery, redact bool) (guardrailVerdict, error) {
	serving, err := adapter.Current(r.Context(), p.backend)
	if err != nil {
		return guardrailVerdict{}, err
	}
	request := rewardmodel.Request{Options: rewardmodel.Options{
		OffsetUnit: rewardmodel.OffsetUTF8, Instances: &redact, Aspects: redact && len(serving.Aspects) > 0,
	}}
	for _, text := range ask.Texts {
		request.Responses = append(request.Responses, adapter.Response(text))
	}
	answer, err := adapter.Score(r.Context(), p.backend, request)
	if err != nil {
		return guardrailVerdict{}, err
	}
	streamed := ask.InputType == inputResponse
	verdict := guardrailVerdict{Action: actionNone}
	for i, result := range answer.Results {
		text := guarded{text: ask.Texts[i], end: len(ask.Texts[i])}
		if streamed {
			if text.end, err = settled(r, text.text); err != nil {
				return guardrailVerdict{}, err
			}
		}
		if redact {
			text.redact(result, serving.Aspects)
		}
		if !result.Compliant && !result.Empty && !text.redacted {
			return guardrailVerdict{Action: actionBlocked, BlockedReason: blockedReason(result, answer.Model)}, nil
		}
		if text.redacted {
			verdict.Action = actionIntervene
		}
		verdict.Texts = append(verdict.Texts, text.text)
		if streamed {
			verdict.Holdback = append(verdict.Holdback, utf8.RuneCountInString(text.text[text.end:]))
		}
	}
	if verdict.Action == actionNone {
		verdict.Texts = nil
	}
	return verdict, nil
}

func blockedReason(result rewardmodel.Result, model rewardmodel.ModelInfo) string {
	rule := ""
	if result.Aspect != "" {
		rule = " of " + result.Aspect
	}
	return fmt.Sprintf("assay: the violation%s is %.3f, above the threshold %.3f of %s %s",
		rule, result.Violation, result.Threshold, model.Name, model.Version)
}

// settled returns the end of the utterances that no later text can change.
func settled(r *http.Request, text string) (end int, err error) {
	if err := exchange.Of(r).Memory.Grow(int64(len(text))); err != nil {
		return 0, err
	}
	var stream segmenter.Stream
	utterances, err := stream.Feed(r.Context(), text)
	if n := len(utterances); n > 0 {
		end = utterances[n-1].End
	}
	return end, err
}

// guarded is a text that a client may see, up to a byte offset.
type guarded struct {
	text     string
	end      int
	redacted bool
}

// redact replaces the utterances over the threshold. Nothing from the first of them
// on may be shown in a stream: the threshold of a longer text may be higher, and what
// was shown cannot be replaced.
func (g *guarded) redact(result rewardmodel.Result, aspects []rewardmodel.Aspect) {
	var out strings.Builder
	end := 0
	for _, instance := range result.Instances {
		if instance.Start < end || !violates(instance, result, aspects) {
			continue
		}
		if !g.redacted {
			g.redacted, g.end = true, min(g.end, instance.Start)
		}
		out.WriteString(g.text[end:instance.Start])
		out.WriteString(redaction)
		end = instance.End
	}
	out.WriteString(g.text[end:])
	g.text = out.String()
}
