package compat

import (
	"io"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/api/internal/adapter"
	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
	"assay/rewardmodel"
	"assay/rewardmodel/wire"
	"assay/segmenter"
)

// slime serves the remote reward model of slime and miles (--rm-type remote_rm
// --rm-url), which use the whole JSON body as the reward: a number, or an object
// of which --reward-key names a member.
type slime struct{ backend adapter.Backend }

func (p slime) routes() []httpjson.Route {
	return []httpjson.Route{
		httpjson.Post("/slime", "slime and miles: the reward of one sample, a bare number", nil, p.reward),
		httpjson.Post("/slime/result", "slime and miles with --reward-key reward: the whole result of one sample", nil, p.result),
	}
}

func (p slime) reward(w http.ResponseWriter, r *http.Request) error {
	answer, err := p.score(w, r)
	if err != nil {
		return err
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, decimal(answer.Results[0].Reward))
}

func (p slime) result(w http.ResponseWriter, r *http.Request) error {
	answer, err := p.score(w, r)
	if err != nil {
		return err
	}
	body, err := httpjson.Render(exchange.Of(r).Memory, func(to io.Writer) error { return wire.WriteResult(to, answer.Results[0]) })
	if err != nil {
		return err
	}
	httpjson.Write(w, r, http.StatusOK, body)
	return nil
}

// sample is one rollout. Its label is ignored.
type sample struct {
	Prompt   chatPrompt `json:"prompt"`
	Response *string    `json:"response"`
}

// chatPrompt is a string, or the list of messages before a template is applied.
type chatPrompt string

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (p *chatPrompt) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	switch d.PeekKind() {
	case '"':
		return json.UnmarshalDecode(d, (*string)(p))
	case '[':
		var messages []struct {
			Content content `json:"content"`
		}
		if err := json.UnmarshalDecode(d, &messages); err != nil {
			return err
		}
		texts := make([]string, len(messages))
		for i, m := range messages {
			texts[i] = string(m.Content)
		}
		*p = chatPrompt(strings.Join(texts, "\n"))
		return nil
	case 'n':
		return d.SkipValue()
	}
	if err := d.SkipValue(); err != nil {
		return err
	}
	return &rewardmodel.InputError{Message: "must be a string or a list of chat messages"}
}

// score scores one rollout. slime decodes with special tokens; they are removed,
// and so are the turns of other roles in the rollout of an agent.
func (p slime) score(w http.ResponseWriter, r *http.Request) (rewardmodel.ScoreResponse, error) {
	var ask sample
	if err := adapter.Read(w, r, &ask); err != nil {
		return rewardmodel.ScoreResponse{}, err
	}
	if ask.Response == nil {
		return rewardmodel.ScoreResponse{}, failure.Invalid("response", `is missing; send {"prompt":"...","response":"..."}`)
	}
	convs := adapter.NewConversations(exchange.Of(r))
	turns, err := convs.Continuation(*ask.Response)
	if err != nil {
		return rewardmodel.ScoreResponse{}, err
	}
	item := sampled(*ask.Response, turns)
	if item.Prompt, err = convs.Context(string(ask.Prompt)); err != nil {
		return rewardmodel.ScoreResponse{}, err
	}
	return adapter.Score(r.Context(), p.backend, rewardmodel.Request{Responses: []rewardmodel.Item{item}})
}

// sampled returns the item of a rollout. For a response of one turn, the offsets
// index the text that the client knows: only what follows the answer is cut off.
func sampled(text string, turns []segmenter.Span) rewardmodel.Item {
	if len(turns) == 1 && strings.TrimSpace(text[:turns[0].Start]) == "" {
		return adapter.Response(text[:turns[0].End])
	}
	texts := make([]string, len(turns))
	for i, span := range turns {
		texts[i] = text[span.Start:span.End]
	}
	return adapter.AssistantTurns(texts)
}
