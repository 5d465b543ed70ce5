package api

import (
	"crypto/rand"
	"net/http"
	"time"

	"assay/rewardmodel"
)

// vllm adds the classification and scoring endpoints of vLLM. verl's built-in
// reward client reads data[-1].probs[-1] of the first, so that compliant is the
// last class. /v1/models has the shape of OpenAI already.
func (s *Server) vllm(a adapters) {
	a.post("/classify", "vLLM, verl: class probabilities, compliant last", vllmFailure, s.classify)
	a.post("/score", "vLLM: the reward of each pair of prompt and response", vllmFailure, s.scorePairs)
}

// vllmFailure is {"error":{"message","type","param","code"}}.
func vllmFailure(f failure) (int, any) {
	type detail struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    int     `json:"code"`
	}
	return f.status, map[string]detail{"error": {f.text(), failureType(f.status), f.param(), f.status}}
}

// failureType is the kind of a failure in the words of vLLM and SGLang.
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

// param is the field that is wrong, or null.
func (f failure) param() *string {
	if f.field == "" {
		return nil
	}
	return &f.field
}

// usage says what vLLM's and OpenAI's clients expect to be there. Tokens are not
// counted on this path: both are 0.
type usage struct {
	PromptTokens int `json:"prompt_tokens"`
	TotalTokens  int `json:"total_tokens"`
}

// list is the answer around the data of vLLM and OpenAI.
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

// classifyQuery is what vLLM takes. Truncation is ignored: long texts are scored
// in windows. So is use_activation: a probability is what the reward is.
type classifyQuery struct {
	Model    name         `json:"model"`
	Input    oneOrMany    `json:"input"`
	Messages chatMessages `json:"messages"`
	Text     *sglangText  `json:"text"` // SGLang's, which has another answer
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

func (s *Server) classify(w http.ResponseWriter, r *http.Request) error {
	var ask classifyQuery
	if err := s.readForeign(w, r, &ask); err != nil {
		return err
	}
	if ask.Text != nil {
		if ask.Input != nil || ask.Messages != nil {
			return errInvalid("text", "is SGLang's, and beside it stands input or messages, which are vLLM's; send one of them")
		}
		return s.classifyText(w, r, ask)
	}
	items, err := ask.items(s.conversations(exchangeOf(r).memory))
	if err != nil {
		return err
	}
	answer, err := s.rate(r.Context(), rewardmodel.Request{Responses: items, Model: s.pin(r.Context(), ask.Model)})
	if err != nil {
		return err
	}
	data := make([]classified, len(answer.Results))
	for i, result := range answer.Results {
		data[i] = classified{i, label(result), probabilities(result), 2}
	}
	return s.writeJSON(w, r, http.StatusOK, newList("classify-", servedName(ask.Model, answer), data))
}

func (q classifyQuery) items(convs *conversations) ([]rewardmodel.Item, error) {
	if q.Messages != nil && q.Input == nil {
		return []rewardmodel.Item{q.Messages.item()}, nil
	}
	return convs.inputs(q.Input)
}

// inputs are the items of a field "input", of which there has to be one.
func (c *conversations) inputs(texts []string) ([]rewardmodel.Item, error) {
	if len(texts) == 0 {
		return nil, errInvalid("input", "is missing or empty; send a string or a list of strings")
	}
	return c.items(texts)
}

// servedName echoes the name that a client asked for, as vLLM does.
func servedName(asked name, answer rewardmodel.Answer) string {
	if asked != "" {
		return string(asked)
	}
	return answer.Model.Version
}

// pairQuery has the names that vLLM's generations give to the two sides.
type pairQuery struct {
	Model name `json:"model"`

	Text1     oneOrMany `json:"text_1"`
	Data1     oneOrMany `json:"data_1"`
	Queries   oneOrMany `json:"queries"`
	Text2     oneOrMany `json:"text_2"`
	Data2     oneOrMany `json:"data_2"`
	Documents oneOrMany `json:"documents"`
	Items     oneOrMany `json:"items"`
}

func firstGiven(lists ...oneOrMany) oneOrMany {
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

// scorePairs gives each pair of prompt and response its reward. One prompt
// stands for all responses.
func (s *Server) scorePairs(w http.ResponseWriter, r *http.Request) error {
	var ask pairQuery
	if err := s.readForeign(w, r, &ask); err != nil {
		return err
	}
	prompts := firstGiven(ask.Text1, ask.Data1, ask.Queries)
	texts := firstGiven(ask.Text2, ask.Data2, ask.Documents, ask.Items)
	switch {
	case len(prompts) == 0:
		return errInvalid("text_1", "is missing or empty; send the prompt, or one for each response")
	case len(texts) == 0:
		return errInvalid("text_2", "is missing or empty; send the responses")
	case len(prompts) != 1 && len(prompts) != len(texts):
		return errInvalid("text_1", "has %d entries and text_2 %d; send one prompt, or one for each response", len(prompts), len(texts))
	}
	items := make([]rewardmodel.Item, len(texts))
	for i, text := range texts {
		items[i] = response(text)
		items[i].Prompt = prompts[min(i, len(prompts)-1)]
	}
	answer, err := s.rate(r.Context(), rewardmodel.Request{Responses: items, Model: s.pin(r.Context(), ask.Model)})
	if err != nil {
		return err
	}
	data := make([]pairScore, len(answer.Results))
	for i, result := range answer.Results {
		data[i] = pairScore{i, "score", result.Reward}
	}
	return s.writeJSON(w, r, http.StatusOK, newList("score-", servedName(ask.Model, answer), data))
}
