package compat

import (
	"cmp"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/api/internal/adapter"
	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
	"assay/rewardmodel"
)

// tei serves the classification endpoints of Text Embeddings Inference, and the
// probe that it shares with vLLM and SGLang.
type tei struct {
	backend adapter.Backend
	ready   func() error
}

func (p tei) routes() []httpjson.Route {
	return []httpjson.Route{
		httpjson.Post("/predict", "Text Embeddings Inference: labels with scores", teiFailure, p.predict),
		httpjson.Get("/info", "Text Embeddings Inference: the model", httpjson.Read, teiFailure, p.info),
		httpjson.Get("/health", "Text Embeddings Inference, vLLM, SGLang: 200 when it can score", httpjson.Public, teiFailure, p.health),
		httpjson.Get("/ping", "Text Embeddings Inference: as /health", httpjson.Public, teiFailure, p.health),
	}
}

// teiFailure is {"error","error_type"}. Overload is 503, not TEI's 429.
func teiFailure(f failure.Failure) (int, any) {
	status, kind := f.Status(), "Validation"
	switch {
	case f.Code == "overloaded":
		kind = "Overloaded"
	case f.Status() == http.StatusServiceUnavailable:
		kind = "Unhealthy"
	case f.Code == "unprocessable":
		status, kind = http.StatusBadRequest, "Empty"
	case f.Code == "invalid":
		status = http.StatusUnprocessableEntity
	case f.Code == "model_failed":
		status, kind = http.StatusFailedDependency, "Backend"
	case f.Status() >= http.StatusInternalServerError:
		kind = "Backend"
	}
	return status, map[string]string{"error": f.Text(), "error_type": kind}
}

// predictQuery is a request. Truncation is ignored: long texts are scored in
// windows.
type predictQuery struct {
	Inputs    predictInputs `json:"inputs"`
	RawScores bool          `json:"raw_scores"`

	// Only Hugging Face's InferenceClient sends parameters, with a single input.
	// It reads the classes of that input from the first element of a list.
	Parameters *struct {
		Function string   `json:"function_to_apply"` // "none": raw scores
		TopK     *float64 `json:"top_k"`             // 2.0 is an integer in JSON Schema as well
	} `json:"parameters"`
}

// shape applies the parameters of InferenceClient.
func (q *predictQuery) shape() (classes int, err error) {
	classes = 2
	p := q.Parameters
	if p == nil {
		return classes, nil
	}
	switch p.Function {
	case "", "sigmoid", "softmax":
	case "none":
		q.RawScores = true
	default:
		return 0, failure.Invalid("parameters.function_to_apply", "unknown value %.40q; use sigmoid, softmax or none", p.Function)
	}
	if p.TopK != nil {
		if *p.TopK != math.Trunc(*p.TopK) {
			return 0, failure.Invalid("parameters.top_k", "must be an integer")
		}
		if *p.TopK < 1 {
			return 0, failure.Invalid("parameters.top_k", "must be at least 1")
		}
		classes = int(min(*p.TopK, float64(classes)))
	}
	q.Inputs.batch = true
	return classes, nil
}

// predictInputs is a text, a pair of prompt and response (["a","b"]), or a
// batch of lists of one or two ([["a"],["b","c"]]).
type predictInputs struct {
	items []rewardmodel.Item
	batch bool
}

// inputReader decodes inputs. It finds conversations while it reads.
type inputReader struct {
	lists adapter.Lists
	convs *adapter.Conversations
}

func newInputReader(x *exchange.Exchange) inputReader {
	return inputReader{adapter.Lists{Limit: x.Limits().MaxResponses()}, adapter.NewConversations(x)}
}

const predictForms = `must be "text", ["prompt","response"], or a batch such as [["text"],["prompt","response"]]`

func (t inputReader) inputs(d *jsontext.Decoder, p *predictInputs) error {
	switch d.PeekKind() {
	case '"':
		var one string
		if err := json.UnmarshalDecode(d, &one); err != nil {
			return err
		}
		item, err := t.sequence([]string{one})
		p.items = []rewardmodel.Item{item}
		return err
	case 'n':
		return d.SkipValue()
	case '[':
		return t.list(d, p)
	}
	return adapter.WrongType(d, predictForms)
}

// list decodes a pair, or a batch.
func (t inputReader) list(d *jsontext.Decoder, p *predictInputs) error {
	var pair []string
	err := t.lists.Each(d, func(i int) error {
		if d.PeekKind() == '[' && len(pair) == 0 {
			item, err := t.readSequence(d)
			p.items, p.batch = append(p.items, item), true
			return err
		}
		token, err := d.ReadToken()
		if err != nil {
			return err
		}
		if token.Kind() != '"' || p.batch || i > 1 {
			return &rewardmodel.InputError{Message: predictForms}
		}
		pair = append(pair, token.String())
		return nil
	})
	if err != nil || len(pair) == 0 {
		return err
	}
	item, err := t.sequence(pair)
	p.items = []rewardmodel.Item{item}
	return err
}

// readSequence decodes a list of one text, or of a prompt and its response.
func (t inputReader) readSequence(d *jsontext.Decoder) (rewardmodel.Item, error) {
	texts, err := adapter.Lists{Limit: 2}.Strings(d)
	var input *rewardmodel.InputError
	switch {
	case errors.As(err, &input) && input.Kind == rewardmodel.KindTooLarge: // the wrong form, whatever its size
		return rewardmodel.Item{}, &rewardmodel.InputError{Message: predictForms}
	case err != nil:
		return rewardmodel.Item{}, err
	}
	return t.sequence(texts)
}

// sequence returns the item of one text, or of a prompt and its response.
func (t inputReader) sequence(texts []string) (rewardmodel.Item, error) {
	switch len(texts) {
	case 1:
		return t.convs.Item(texts[0])
	case 2:
		item := adapter.Response(texts[1])
		var err error
		item.Prompt, err = t.convs.Context(texts[0])
		return item, err
	}
	return rewardmodel.Item{}, &rewardmodel.InputError{Message: predictForms}
}

type prediction struct {
	Score float64 `json:"score"`
	Label string  `json:"label"`
}

func (p tei) predict(w http.ResponseWriter, r *http.Request) error {
	var ask predictQuery
	if err := adapter.Read(w, r, &ask, json.UnmarshalFromFunc(newInputReader(exchange.Of(r)).inputs)); err != nil {
		return err
	}
	if len(ask.Inputs.items) == 0 {
		return &rewardmodel.InputError{Kind: rewardmodel.KindUnprocessable, Field: "inputs", Message: "is missing or empty; it " + predictForms}
	}
	classes, err := ask.shape()
	if err != nil {
		return err
	}
	request := rewardmodel.Request{Responses: ask.Inputs.items}
	if ask.RawScores {
		request.Options.Reward = rewardmodel.RewardLogit
	}
	answer, err := adapter.Score(r.Context(), p.backend, request)
	if err != nil {
		return err
	}
	out := make([][]prediction, len(answer.Results))
	for i, result := range answer.Results {
		out[i] = predicted(result, ask.RawScores)[:classes]
	}
	teiTiming(w.Header(), answer.TimingMS)
	if ask.Inputs.batch {
		return httpjson.WriteJSON(w, r, http.StatusOK, out)
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, out[0])
}

// predicted returns the class with the larger score first. Raw scores are
// log-odds.
func predicted(result rewardmodel.Result, raw bool) []prediction {
	violation, compliant := 1-result.Reward, result.Reward
	if raw {
		violation = 0 - result.Reward // never a negative zero
	}
	out := []prediction{{compliant, labelCompliant}, {violation, labelViolation}}
	slices.SortStableFunc(out, func(a, b prediction) int { return cmp.Compare(b.Score, a.Score) })
	return out
}

// teiTiming sets TEI's headers about where the time went, in whole milliseconds.
func teiTiming(h http.Header, t rewardmodel.Timing) {
	ms := func(name string, value float64) { h.Set(name, strconv.Itoa(int(math.Round(value)))) }
	ms("X-Compute-Time", t.Tokenize+t.Inference)
	ms("X-Total-Time", t.Total)
	ms("X-Tokenization-Time", t.Tokenize)
	ms("X-Queue-Time", t.Queue)
	ms("X-Inference-Time", t.Inference)
}

// unlimited is what /info reports where there is no limit: texts of any length
// are scored in windows, and the queue is bounded in tokens, not in requests.
const unlimited = math.MaxInt32

func (p tei) info(w http.ResponseWriter, r *http.Request) error {
	serving, err := adapter.Current(r.Context(), p.backend)
	if err != nil {
		return err
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, map[string]any{
		"model_id": serving.Name, "model_sha": serving.Version, "model_dtype": "auto",
		"model_type": map[string]any{"classifier": map[string]any{
			"id2label": map[string]string{"0": labelViolation, "1": labelCompliant},
			"label2id": map[string]int{labelViolation: 0, labelCompliant: 1},
		}},
		"max_concurrent_requests": unlimited, "max_input_length": unlimited, "max_batch_tokens": unlimited,
		"max_batch_requests": nil, "max_client_batch_size": exchange.Of(r).Limits().MaxResponses(), "auto_truncate": false,
		"tokenization_workers": 1, "version": "assay", "sha": nil, "docker_label": nil,
	})
}

// health is /readyz without a body while the service can score.
func (p tei) health(w http.ResponseWriter, r *http.Request) error {
	if err := p.ready(); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}
