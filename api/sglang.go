package api

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"

	"assay/rewardmodel"
)

// sglang adds the embeddings of SGLang, which are the outputs of a reward model
// there: verl reads data[-1].embedding[-1].
func (s *Server) sglang(a adapters) {
	a.post("/v1/embeddings", "SGLang, verl: the class probabilities as an embedding, compliant last", sglangFailure, s.embeddings)
}

// sglangFailure is vLLM's without the object around; OpenAI's clients read both.
func sglangFailure(f failure) (int, any) {
	return f.status, map[string]any{
		"object": "error", "message": f.text(), "type": failureType(f.status), "param": f.param(), "code": f.status,
	}
}

// embeddingQuery is what SGLang and OpenAI take.
type embeddingQuery struct {
	Model  name      `json:"model"`
	Input  oneOrMany `json:"input"`
	Format string    `json:"encoding_format"` // "float", or "base64", which OpenAI's own client asks for
}

type embedding struct {
	Object    string `json:"object"`
	Embedding any    `json:"embedding"` // [violation, compliant], or the same as float32 in base64
	Index     int    `json:"index"`
}

func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) error {
	var ask embeddingQuery
	if err := s.readForeign(w, r, &ask); err != nil {
		return err
	}
	if ask.Format != "" && ask.Format != "float" && ask.Format != "base64" {
		return errInvalid("encoding_format", "unknown value %.40q; use float or base64", ask.Format)
	}
	items, err := s.conversations(exchangeOf(r).memory).inputs(ask.Input)
	if err != nil {
		return err
	}
	answer, err := s.rate(r.Context(), rewardmodel.Request{Responses: items, Model: s.pin(r.Context(), ask.Model)})
	if err != nil {
		return err
	}
	data := make([]embedding, len(answer.Results))
	for i, result := range answer.Results {
		data[i] = embedding{"embedding", probabilities(result), i}
		if ask.Format == "base64" {
			data[i].Embedding = packed(probabilities(result))
		}
	}
	return s.writeJSON(w, r, http.StatusOK, list[embedding]{Object: "list", Model: servedName(ask.Model, answer), Data: data})
}

// outcome is what SGLang's /classify gives for a text: readers of rewards take
// the first value of the embedding, or the last, so that there is one.
type outcome struct {
	Embedding [1]decimal     `json:"embedding"` // the reward
	Meta      map[string]any `json:"meta_info"`
}

// classifyText answers requests of SGLang's /classify, which has the path of
// vLLM's and "text" for its "input": an object for a string, a list for a list.
func (s *Server) classifyText(w http.ResponseWriter, r *http.Request, ask classifyQuery) error {
	if len(ask.Text.texts) == 0 {
		return errInvalid("text", "is empty; send a string or a list of strings")
	}
	items, err := s.conversations(exchangeOf(r).memory).items(ask.Text.texts)
	if err != nil {
		return err
	}
	answer, err := s.rate(r.Context(), rewardmodel.Request{Responses: items, Model: s.pin(r.Context(), ask.Model)})
	if err != nil {
		return err
	}
	out := make([]outcome, len(answer.Results))
	for i, result := range answer.Results {
		out[i] = outcome{[1]decimal{decimal(result.Reward)}, map[string]any{"id": result.ID, "prompt_tokens": 0}}
	}
	if ask.Text.one {
		return s.writeJSON(w, r, http.StatusOK, out[0])
	}
	return s.writeJSON(w, r, http.StatusOK, out)
}

// sglangText is a string or a list of strings, and remembers which.
type sglangText struct {
	texts oneOrMany
	one   bool
}

// packed is a vector as little-endian float32 in base64.
func packed(vector [2]float64) string {
	var raw []byte
	for _, x := range vector {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(x)))
	}
	return base64.StdEncoding.EncodeToString(raw)
}
