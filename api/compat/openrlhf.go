package compat

import (
	"net/http"
	"unicode/utf8"

	"assay/api/internal/adapter"
	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
	"assay/rewardmodel"
	"assay/segmenter"
)

// openRLHF serves the reward server of OpenRLHF (--reward.remote_url, formerly
// --remote_rm_url). It defines no error format, so that assay's own is used.
type openRLHF struct{ backend adapter.Backend }

func (p openRLHF) routes() []httpjson.Route {
	return []httpjson.Route{
		httpjson.Post("/get_reward", "OpenRLHF: rewards of queries", nil, p.getReward),
	}
}

// rewardQuery is what every version of the client sends. A query is prompt and
// response as the tokenizer decodes them, including template and special tokens;
// the oldest clients send nothing else. Labels are ignored.
type rewardQuery struct {
	Query   adapter.Texts       `json:"query"`
	Prompts adapter.SparseTexts `json:"prompts"` // null where there is none
}

// rewardAnswer has a value for each query. The client makes tensors of ExtraLogs,
// so that all of it is numeric; it ignores further members.
type rewardAnswer struct {
	Rewards   []decimal            `json:"rewards"`    // compliance, in [0,1]
	Scores    []decimal            `json:"scores"`     // the same, for dynamic filtering
	ExtraLogs map[string][]decimal `json:"extra_logs"` // with reward_NAME and violation_NAME of each of several aspects

	Model      *rewardmodel.ModelInfo `json:"model,omitempty"`
	OffsetUnit rewardmodel.OffsetUnit `json:"offset_unit"`
	Indexes    string                 `json:"indexes"`   // what the spans of Witnesses index
	Witnesses  []*rewardmodel.Witness `json:"witnesses"` // of the response; null when that is empty
	Responses  [][]responseSpan       `json:"responses"` // where the query holds it, turn by turn
}

// responseSpan is where a turn of the response is in the query.
type responseSpan struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// getReward responds to an empty list of queries with empty lists: a client of
// several servers sends it to those that it has no queries for.
func (p openRLHF) getReward(w http.ResponseWriter, r *http.Request) error {
	var ask rewardQuery
	if err := adapter.Read(w, r, &ask); err != nil {
		return err
	}
	switch {
	case ask.Query == nil:
		return failure.Invalid("query", `is missing; send {"query":["prompt and response"],"prompts":["prompt"]}`)
	case len(ask.Prompts) > 0 && len(ask.Prompts) != len(ask.Query):
		return failure.Invalid("prompts", "has %d entries and query %d; send one prompt for each query, or none", len(ask.Prompts), len(ask.Query))
	}
	items := make([]rewardmodel.Item, len(ask.Query))
	spans := make([][]responseSpan, len(ask.Query))
	lengths := make([]decimal, len(ask.Query))
	convs := adapter.NewConversations(exchange.Of(r))
	for i, query := range ask.Query {
		prompt := ""
		if len(ask.Prompts) > 0 {
			prompt = ask.Prompts[i]
		}
		turns, err := convs.Turns(query, prompt)
		if err != nil {
			return err
		}
		items[i], spans[i], lengths[i] = answered(query, turns)
		if items[i].Prompt, err = convs.Before(query, turns); err == nil && items[i].Prompt == "" {
			items[i].Prompt, err = convs.Context(prompt)
		}
		if err != nil {
			return err
		}
	}
	var answer rewardmodel.ScoreResponse
	if len(items) > 0 {
		serving, err := adapter.Current(r.Context(), p.backend)
		if err != nil {
			return err
		}
		request := rewardmodel.Request{Responses: items}
		request.Options.Aspects = len(serving.Aspects) > 0
		if answer, err = adapter.Score(r.Context(), p.backend, request); err != nil {
			return err
		}
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, newRewardAnswer(answer, spans, lengths))
}

// answered returns the item of a query, its spans in code points, and the length
// of the response in code points.
func answered(query string, turns []segmenter.Span) (rewardmodel.Item, []responseSpan, decimal) {
	texts := make([]string, len(turns))
	spans := make([]responseSpan, len(turns))
	length := 0
	for i, span := range rewardmodel.OffsetCodepoint.Convert(query, turns) {
		texts[i] = query[turns[i].Start:turns[i].End]
		spans[i] = responseSpan(span)
		length += utf8.RuneCountInString(texts[i])
	}
	return adapter.AssistantTurns(texts), spans, decimal(length)
}

func newRewardAnswer(answer rewardmodel.ScoreResponse, spans [][]responseSpan, lengths []decimal) rewardAnswer {
	out := rewardAnswer{
		Rewards: []decimal{}, Scores: []decimal{}, Witnesses: []*rewardmodel.Witness{}, Responses: spans,
		OffsetUnit: rewardmodel.OffsetCodepoint, Indexes: "response",
		ExtraLogs: map[string][]decimal{
			"violation": {}, "compliant": {}, "threshold": {}, "empty": {}, "truncated": {}, "instances": {},
			"response_length": lengths, "witness_index": {}, "witness_start": {}, "witness_end": {},
		},
	}
	log := func(name string, value float64) { out.ExtraLogs[name] = append(out.ExtraLogs[name], decimal(value)) }
	for _, result := range answer.Results {
		out.Rewards = append(out.Rewards, decimal(result.Reward))
		out.Scores = append(out.Scores, decimal(result.Reward))
		out.Witnesses = append(out.Witnesses, result.Witness)
		log("violation", result.Violation)
		log("threshold", result.Threshold)
		log("compliant", number(result.Compliant))
		log("empty", number(result.Empty))
		log("truncated", number(result.Truncated))
		log("instances", float64(len(result.Instances)))
		index, start, end := -1, -1, -1 // an empty response has no witness
		if witness := result.Witness; witness != nil {
			index, start, end = witness.Index, witness.Start, witness.End
		}
		log("witness_index", float64(index))
		log("witness_start", float64(start))
		log("witness_end", float64(end))
		for name, aspect := range result.Aspects {
			log("reward_"+name, aspect.Reward)
			log("violation_"+name, aspect.Violation)
		}
	}
	if len(answer.Results) > 0 {
		out.Model = &answer.Model
	}
	return out
}

// number converts a flag to an element of a tensor.
func number(flag bool) float64 {
	if flag {
		return 1
	}
	return 0
}
