package rewardmodel

import "github.com/go-json-experiment/json/jsontext"

// AppendJSON appends r to dst as the JSON that DecodeRequest reads, for clients.
// What is left out means its default.
func (r Request) AppendJSON(dst []byte) ([]byte, error) {
	out := requestJSON{Model: r.Model, Options: optionsJSON(r.Options), Responses: make([]itemJSON, len(r.Responses))}
	for i, item := range r.Responses {
		out.Responses[i] = itemJSON(item)
	}
	return appendJSON(dst, out)
}

type requestJSON struct {
	Responses []itemJSON  `json:"responses"`
	Model     string      `json:"model,omitzero"`
	Options   optionsJSON `json:"options,omitzero"`
}

type itemJSON struct {
	ID        string         `json:"id,omitzero"`
	Prompt    string         `json:"prompt,omitzero"`
	Response  *string        `json:"response,omitzero"`
	Messages  []Message      `json:"messages,omitzero"`
	Instances []string       `json:"instances,omitzero"`
	Metadata  jsontext.Value `json:"metadata,omitzero"`

	TokenOffsets [][2]int `json:"token_offsets,omitzero"`
}

type optionsJSON struct {
	Reward     Reward     `json:"reward,omitzero"`
	Aggregate  Aggregate  `json:"aggregate,omitzero"`
	OffsetUnit OffsetUnit `json:"offset_unit,omitzero"`
	Reasoning  Reasoning  `json:"reasoning,omitzero"`
	Instances  *bool      `json:"instances,omitzero"`
	TopK       *int       `json:"top_k,omitzero"`
	Dense      Dense      `json:"dense,omitzero"`
	Gamma      *float64   `json:"gamma,omitzero"`
	Tokenizer  string     `json:"tokenizer,omitzero"`
}
