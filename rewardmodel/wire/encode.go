package wire

import (
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/rewardmodel"
)

// AppendRequest appends r to dst as the JSON that DecodeRequest reads, for
// clients. Fields with their default are omitted.
func AppendRequest(dst []byte, r rewardmodel.Request) ([]byte, error) {
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
	ID        string                `json:"id,omitzero"`
	Prompt    string                `json:"prompt,omitzero"`
	Response  *string               `json:"response,omitzero"`
	Messages  []rewardmodel.Message `json:"messages,omitzero"`
	Instances []string              `json:"instances,omitzero"`
	Metadata  jsontext.Value        `json:"metadata,omitzero"`

	TokenOffsets [][2]int `json:"token_offsets,omitzero"`
}

type optionsJSON struct {
	Reward     rewardmodel.Reward     `json:"reward,omitzero"`
	Aggregate  rewardmodel.Aggregate  `json:"aggregate,omitzero"`
	OffsetUnit rewardmodel.OffsetUnit `json:"offset_unit,omitzero"`
	Reasoning  rewardmodel.Reasoning  `json:"reasoning,omitzero"`
	Instances  *bool                  `json:"instances,omitzero"`
	TopK       *int                   `json:"top_k,omitzero"`

	Aspects     bool                    `json:"aspects,omitzero"`
	Combination rewardmodel.Combination `json:"combination,omitzero"`
	Weights     map[string]float64      `json:"weights,omitzero"`

	Dense     rewardmodel.Dense `json:"dense,omitzero"`
	Gamma     *float64          `json:"gamma,omitzero"`
	Tokenizer string            `json:"tokenizer,omitzero"`
}

// WriteScoreResponse streams a as JSON, so that only a part of the JSON is in memory. Each
// byte of text that is not valid UTF-8, which can come from a file, becomes U+FFFD.
// It fails when the writer fails, or on a non-finite number, which Score never
// returns.
func WriteScoreResponse(to io.Writer, a rewardmodel.ScoreResponse) error { return writeJSON(to, a) }

// WriteResult is like WriteScoreResponse, for one result. It adds no newline.
func WriteResult(to io.Writer, r rewardmodel.Result) error { return writeJSON(to, r) }

// AppendResult is like WriteResult, but appends to dst.
func AppendResult(dst []byte, r rewardmodel.Result) ([]byte, error) { return appendJSON(dst, r) }

func writeJSON(to io.Writer, value any) error {
	return json.MarshalWrite(to, value, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
}

func appendJSON(dst []byte, value any) ([]byte, error) {
	out, err := json.Marshal(value, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err != nil {
		return dst, err
	}
	return append(dst, out...), nil
}
