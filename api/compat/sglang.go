package compat

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/api/internal/adapter"
	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
)

// sglang serves the embeddings endpoint of SGLang, which returns the outputs of a
// reward model there: verl reads data[-1].embedding[-1].
type sglang struct{ backend adapter.Backend }

func (p sglang) routes() []httpjson.Route {
	return []httpjson.Route{
		httpjson.Post("/v1/embeddings", "SGLang, verl: the class probabilities as an embedding, compliant last", sglangFailure, p.embeddings),
	}
}

// sglangFailure is vLLM's without the enclosing object; OpenAI's clients read
// both.
func sglangFailure(f failure.Failure) (int, any) {
	return f.Status(), map[string]any{
		"object": "error", "message": f.Text(), "type": failureType(f.Status()), "param": f.Param(), "code": f.Status(),
	}
}

// embeddingQuery is a request of SGLang or OpenAI.
type embeddingQuery struct {
	Model  adapter.Name  `json:"model"`
	Input  adapter.Texts `json:"input"`
	Format string        `json:"encoding_format"` // "float", or "base64", which OpenAI's own client requests
}

type embedding struct {
	Object    string `json:"object"`
	Embedding any    `json:"embedding"` // [violation, compliant], or the same as float32 in base64
	Index     int    `json:"index"`
}

func (p sglang) embeddings(w http.ResponseWriter, r *http.Request) error {
	var ask embeddingQuery
	if err := adapter.Read(w, r, &ask); err != nil {
		return err
	}
	if ask.Format != "" && ask.Format != "float" && ask.Format != "base64" {
		return failure.Invalid("encoding_format", "unknown value %.40q; use float or base64", ask.Format)
	}
	items, err := inputItems(adapter.NewConversations(exchange.Of(r)), ask.Input)
	if err != nil {
		return err
	}
	answer, err := adapter.ScorePinned(r.Context(), p.backend, ask.Model, items)
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
	return httpjson.WriteJSON(w, r, http.StatusOK, list[embedding]{Object: "list", Model: servedName(ask.Model, answer), Data: data})
}

// outcome is what SGLang's /classify returns for a text. Reward clients read
// either the first value of the embedding or the last, so that there is only one.
type outcome struct {
	Embedding [1]decimal     `json:"embedding"` // the reward
	Meta      map[string]any `json:"meta_info"`
}

// classifyText serves SGLang's /classify, which has the path of vLLM's and "text"
// for its "input": it returns an object for a string, a list for a list.
func (p sglang) classifyText(w http.ResponseWriter, r *http.Request, ask classifyQuery) error {
	if len(ask.Text.texts) == 0 {
		return failure.Invalid("text", "is empty; send a string or a list of strings")
	}
	items, err := adapter.NewConversations(exchange.Of(r)).Items(ask.Text.texts)
	if err != nil {
		return err
	}
	answer, err := adapter.ScorePinned(r.Context(), p.backend, ask.Model, items)
	if err != nil {
		return err
	}
	out := make([]outcome, len(answer.Results))
	for i, result := range answer.Results {
		out[i] = outcome{[1]decimal{decimal(result.Reward)}, map[string]any{"id": result.ID, "prompt_tokens": 0}}
	}
	if ask.Text.one {
		return httpjson.WriteJSON(w, r, http.StatusOK, out[0])
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, out)
}

// sglangText is a string or a list of strings, and remembers which.
type sglangText struct {
	texts adapter.Texts
	one   bool
}

// readSGLangText returns the decoder of sglangText.
func readSGLangText(lists adapter.Lists) *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(d *jsontext.Decoder, s *sglangText) error {
		s.one = d.PeekKind() == '"'
		return lists.Texts(d, &s.texts)
	})
}

// packed encodes a vector as little-endian float32 in base64.
func packed(vector [2]float64) string {
	var raw []byte
	for _, x := range vector {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(x)))
	}
	return base64.StdEncoding.EncodeToString(raw)
}
