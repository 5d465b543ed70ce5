package api

import (
	"io"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/rewardmodel"
	"assay/rewardmodel/wire"
	"assay/segmenter"
)

// slime adds the remote reward model of slime and miles (--rm-type remote_rm
// --rm-url), which take the whole JSON body for the reward: a number, or an
// object of which --reward-key names a member.
func (s *Server) slime(a adapters) {
	a.post("/slime", "slime and miles: the reward of one sample, a bare number", nil, func(w http.ResponseWriter, r *http.Request) error {
		answer, err := s.rateSample(w, r)
		if err != nil {
			return err
		}
		return s.writeJSON(w, r, http.StatusOK, decimal(answer.Results[0].Reward))
	})
	a.post("/slime/result", "slime and miles with --reward-key reward: the whole result of one sample", nil, func(w http.ResponseWriter, r *http.Request) error {
		answer, err := s.rateSample(w, r)
		if err != nil {
			return err
		}
		body, err := render(exchangeOf(r).memory, func(to io.Writer) error { return wire.WriteResult(to, answer.Results[0]) })
		if err != nil {
			return err
		}
		s.write(w, r, http.StatusOK, body)
		return nil
	})
}

// sample is one rollout. Its label is not looked at.
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

// rateSample scores one rollout. slime decodes with special tokens, which are
// stripped, and so are the turns of others in an agent's rollout.
func (s *Server) rateSample(w http.ResponseWriter, r *http.Request) (rewardmodel.Answer, error) {
	var ask sample
	if err := s.readForeign(w, r, &ask); err != nil {
		return rewardmodel.Answer{}, err
	}
	if ask.Response == nil {
		return rewardmodel.Answer{}, errInvalid("response", `is missing; send {"prompt":"...","response":"..."}`)
	}
	turns, err := s.conversations(exchangeOf(r).memory).continuation(*ask.Response)
	if err != nil {
		return rewardmodel.Answer{}, err
	}
	item := sampled(*ask.Response, turns)
	item.Prompt = string(ask.Prompt)
	return s.rate(r.Context(), rewardmodel.Request{Responses: []rewardmodel.Item{item}})
}

// sampled keeps the offsets of a response of one turn those of the text that
// the client knows: only what follows the answer is cut off.
func sampled(text string, turns []segmenter.Span) rewardmodel.Item {
	if len(turns) == 1 && strings.TrimSpace(text[:turns[0].Start]) == "" {
		return response(text[:turns[0].End])
	}
	said := make([]string, len(turns))
	for i, span := range turns {
		said[i] = text[span.Start:span.End]
	}
	return spoken(said)
}
