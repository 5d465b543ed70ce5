package compat

import (
	"crypto/rand"
	"net/http"
	"time"

	"assay/api/internal/adapter"
	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
	"assay/rewardmodel"
)

// vllm serves the classification and scoring endpoints of vLLM. The built-in
// reward client of verl reads data[-1].probs[-1] of the first, so that compliant
// is the last class. /v1/models is compatible with OpenAI already.
type vllm struct{ backend adapter.Backend }

func (p vllm) routes() []httpjson.Route {
	return []httpjson.Route{
		httpjson.Post("/classify", "vLLM, verl: class probabilities, compliant last", vllmFailure, p.classify),
		httpjson.Post("/score", "vLLM: the reward of each pair of prompt and response", vllmFailure, p.score),
	}
}

// vllmFailure is {"error":{"message","type","param","code"}}.
func vllmFailure(f failure.Failure) (int, any) {
	type detail struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    int     `json:"code"`
	}
	return f.Status(), map[string]detail{"error": {f.Text(), failureType(f.Status()), f.Param(), f.Status()}}
}

// failureType returns the error type that vLLM and SGLang use for a status.
func failureType(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "AuthenticationError"
	case status == http.StatusForbidden:
		return "PermissionDeniedError"
	case status == http.StatusNotFound:
		return "NotFoundError"
	case status == http.StatusServiceUnavailable:
		return "ServiceUnavailableError"
	case status < http.StatusInternalServerError:
		return "BadRequestError"
	}
	return "InternalServerError"
}

// usage is what the clients of vLLM and OpenAI expect. Tokens are not counted on
// this path: both are 0.
type usage struct {
	PromptTokens int `json:"prompt_tokens"`
	TotalTokens  int `json:"total_tokens"`
}

// list is the response of vLLM and OpenAI around their data.
type list[T any] struct {
	ID      string `json:"id,omitempty"`
	Object  string `json:"object"`
	Created int64  `json:"created,omitempty"`
	Model   string `json:"model"`
	Data    []T    `json:"data"`
	Usage   usage  `json:"usage"`
}

func newList[T any](prefix, model string, data []T) list[T] {
	return list[T]{ID: prefix + rand.Text(), Object: "list", Created: time.Now().Unix(), Model: model, Data: data}
}

// classifyQuery is a request of vLLM or SGLang. Truncation is ignored: long texts
// are scored in windows. So is use_activation: the reward is a probability.
type classifyQuery struct {
	Model    adapter.Name  `json:"model"`
	Input    adapter.Texts `json:"input"`
	Messages chatMessages  `json:"messages"`
	Text     *sglangText   `json:"text"` // SGLang's, which has another response
}

// chatMessages are those of an OpenAI chat.
type chatMessages []struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

func (m chatMessages) item() rewardmodel.Item {
	messages := make([]rewardmodel.Message, len(m))
	for i, message := range m {
		messages[i] = rewardmodel.Message{Role: message.Role, Content: string(message.Content)}
	}
	return rewardmodel.Item{Messages: messages}
}

type classified struct {
	Index      int        `json:"index"`
	Label      string     `json:"label"`
	Probs      [2]float64 `json:"probs"`
	NumClasses int        `json:"num_classes"`
}

func (p vllm) classify(w http.ResponseWriter, r *http.Request) error {
	var ask classifyQuery
	if err := adapter.Read(w, r, &ask, readSGLangText(listsOf(r))); err != nil {
		return err
	}
	if ask.Text != nil {
		if ask.Input != nil || ask.Messages != nil {
			return failure.Invalid("text", "belongs to SGLang's protocol and cannot be combined with input or messages of vLLM's; send one of them")
		}
		return sglang(p).classifyText(w, r, ask)
	}
	items, err := ask.items(adapter.NewConversations(exchange.Of(r)))
	if err != nil {
		return err
	}
	answer, err := adapter.ScorePinned(r.Context(), p.backend, ask.Model, items)
	if err != nil {
		return err
	}
	data := make([]classified, len(answer.Results))
	for i, result := range answer.Results {
		data[i] = classified{i, label(result), probabilities(result), 2}
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, newList("classify-", servedName(ask.Model, answer), data))
}

func (q classifyQuery) items(convs *adapter.Conversations) ([]rewardmodel.Item, error) {
	if q.Messages != nil && q.Input == nil {
		return []rewardmodel.Item{q.Messages.item()}, nil
	}
	return inputItems(convs, q.Input)
}

// inputItems returns the items of a field "input", which must not be empty.
func inputItems(convs *adapter.Conversations, texts []string) ([]rewardmodel.Item, error) {
	if len(texts) == 0 {
		return nil, failure.Invalid("input", "is missing or empty; send a string or a list of strings")
	}
	return convs.Items(texts)
}

// servedName echoes the model name that a client sent, as vLLM does.
func servedName(asked adapter.Name, answer rewardmodel.ScoreResponse) string {
	if asked != "" {
		return string(asked)
	}
	return answer.Model.Version
}

// pairQuery has the names that the versions of vLLM gave to the two sides.
type pairQuery struct {
	Model adapter.Name `json:"model"`

	Text1     adapter.Texts `json:"text_1"`
	Data1     adapter.Texts `json:"data_1"`
	Queries   adapter.Texts `json:"queries"`
	Text2     adapter.Texts `json:"text_2"`
	Data2     adapter.Texts `json:"data_2"`
	Documents adapter.Texts `json:"documents"`
	Items     adapter.Texts `json:"items"`
}

func firstGiven(lists ...adapter.Texts) adapter.Texts {
	for _, l := range lists {
		if len(l) > 0 {
			return l
		}
	}
	return nil
}

type pairScore struct {
	Index  int     `json:"index"`
	Object string  `json:"object"`
	Score  float64 `json:"score"`
}

// score returns the reward of each pair of prompt and response. A single prompt
// applies to all responses.
func (p vllm) score(w http.ResponseWriter, r *http.Request) error {
	var ask pairQuery
	if err := adapter.Read(w, r, &ask); err != nil {
		return err
	}
	prompts := firstGiven(ask.Text1, ask.Data1, ask.Queries)
	texts := firstGiven(ask.Text2, ask.Data2, ask.Documents, ask.Items)
	switch {
	case len(prompts) == 0:
		return failure.Invalid("text_1", "is missing or empty; send the prompt, or one for each response")
	case len(texts) == 0:
		return failure.Invalid("text_2", "is missing or empty; send the responses")
	case len(prompts) != 1 && len(prompts) != len(texts):
		return failure.Invalid("text_1", "has %d entries and text_2 %d; send one prompt, or one for each response", len(prompts), len(texts))
	}
	convs := adapter.NewConversations(exchange.Of(r))
	contexts := make([]string, len(prompts))
	for i, prompt := range prompts {
		var err error
		if contexts[i], err = convs.Context(prompt); err != nil {
			return err
		}
	}
	items := make([]rewardmodel.Item, len(texts))
	for i, text := range texts {
		items[i] = adapter.Response(text)
		items[i].Prompt = contexts[min(i, len(contexts)-1)]
	}
	answer, err := adapter.ScorePinned(r.Context(), p.backend, ask.Model, items)
	if err != nil {
		return err
	}
	data := make([]pairScore, len(answer.Results))
	for i, result := range answer.Results {
		data[i] = pairScore{i, "score", result.Reward}
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, newList("score-", servedName(ask.Model, answer), data))
}
