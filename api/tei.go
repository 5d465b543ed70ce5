package api

import (
	"cmp"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/rewardmodel"
)

// tei adds the classification endpoints of Text Embeddings Inference, and the
// probe that it shares with vLLM and SGLang.
func (s *Server) tei(a adapters) {
	a.post("/predict", "Text Embeddings Inference: labels with scores", teiFailure, s.predict)
	a.get("/info", "Text Embeddings Inference: the model", teiFailure, s.needs(ScopeScore, s.timely(s.teiInfo)))
	a.get("/health", "Text Embeddings Inference, vLLM, SGLang: 200 when it can score", teiFailure, s.healthy)
	a.get("/ping", "Text Embeddings Inference: as /health", teiFailure, s.healthy)
}

// teiFailure is {"error","error_type"}. Overload is 503, not TEI's 429.
func teiFailure(f failure) (int, any) {
	status, kind := f.status, "Validation"
	switch {
	case f.code == "overloaded":
		kind = "Overloaded"
	case f.status == http.StatusServiceUnavailable:
		kind = "Unhealthy"
	case f.code == "unprocessable":
		status, kind = http.StatusBadRequest, "Empty"
	case f.code == "invalid":
		status = http.StatusUnprocessableEntity
	case f.code == "model_failed":
		status, kind = http.StatusFailedDependency, "Backend"
	case f.status >= http.StatusInternalServerError:
		kind = "Backend"
	}
	return status, map[string]string{"error": f.text(), "error_type": kind}
}

// predictQuery is what TEI takes. Truncation is ignored: long texts are scored
// in windows.
type predictQuery struct {
	Inputs    predictInputs `json:"inputs"`
	RawScores bool          `json:"raw_scores"`

	// What Hugging Face's InferenceClient sends beside its one input, and only
	// it: it reads the classes of that input from the first element of a list.
	Parameters *struct {
		Function string   `json:"function_to_apply"` // "none" asks for raw scores
		TopK     *float64 `json:"top_k"`             // 2.0 is an integer of JSON Schema, too
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
		return 0, errInvalid("parameters.function_to_apply", "unknown value %.40q; use sigmoid, softmax or none", p.Function)
	}
	if p.TopK != nil {
		if *p.TopK != math.Trunc(*p.TopK) {
			return 0, errInvalid("parameters.top_k", "must be an integer")
		}
		if *p.TopK < 1 {
			return 0, errInvalid("parameters.top_k", "must be at least 1")
		}
		classes = int(min(*p.TopK, float64(classes)))
	}
	q.Inputs.batch = true
	return classes, nil
}

// predictInputs are a text, a pair of prompt and response (["a","b"]), or a
// batch of lists of one or two ([["a"],["b","c"]]).
type predictInputs struct {
	items []rewardmodel.Item
	batch bool
}

const predictForms = `must be "text", ["prompt","response"], or a batch such as [["text"],["prompt","response"]]`

func (t textReader) predictInputs(d *jsontext.Decoder, p *predictInputs) error {
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
		return t.predictList(d, p)
	}
	return wrongForm(d, predictForms)
}

// predictList reads a pair, or a batch.
func (t textReader) predictList(d *jsontext.Decoder, p *predictInputs) error {
	var pair []string
	err := eachOf(d, t.limit, func(i int) error {
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

// readSequence reads a list of one text, or of a prompt and its response.
func (t textReader) readSequence(d *jsontext.Decoder) (rewardmodel.Item, error) {
	list, err := textReader{limit: 2}.list(d, false)
	var refused *rewardmodel.InputError
	switch {
	case errors.As(err, &refused) && refused.Kind == rewardmodel.KindTooLarge: // the wrong form, whatever its size
		return rewardmodel.Item{}, &rewardmodel.InputError{Message: predictForms}
	case err != nil:
		return rewardmodel.Item{}, err
	}
	return t.sequence(list)
}

// sequence is the item of one text, or of a prompt and its response.
func (t textReader) sequence(texts []string) (rewardmodel.Item, error) {
	switch len(texts) {
	case 1:
		return t.convs.item(texts[0])
	case 2:
		item := response(texts[1])
		item.Prompt = texts[0]
		return item, nil
	}
	return rewardmodel.Item{}, &rewardmodel.InputError{Message: predictForms}
}

type prediction struct {
	Score float64 `json:"score"`
	Label string  `json:"label"`
}

func (s *Server) predict(w http.ResponseWriter, r *http.Request) error {
	var ask predictQuery
	if err := s.readForeign(w, r, &ask); err != nil {
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
	answer, err := s.rate(r.Context(), request)
	if err != nil {
		return err
	}
	out := make([][]prediction, len(answer.Results))
	for i, result := range answer.Results {
		out[i] = predicted(result, ask.RawScores)[:classes]
	}
	teiTiming(w.Header(), answer.TimingMS)
	if ask.Inputs.batch {
		return s.writeJSON(w, r, http.StatusOK, out)
	}
	return s.writeJSON(w, r, http.StatusOK, out[0])
}

// predicted has the class with the larger score first. Raw scores are log-odds.
func predicted(result rewardmodel.Result, raw bool) []prediction {
	violation, compliant := 1-result.Reward, result.Reward
	if raw {
		violation = 0 - result.Reward // never a negative zero
	}
	out := []prediction{{compliant, labelCompliant}, {violation, labelViolation}}
	slices.SortStableFunc(out, func(a, b prediction) int { return cmp.Compare(b.Score, a.Score) })
	return out
}

// teiTiming tells in TEI's headers where the time went, in whole milliseconds.
func teiTiming(h http.Header, t rewardmodel.Timing) {
	ms := func(name string, value float64) { h.Set(name, strconv.Itoa(int(math.Round(value)))) }
	ms("X-Compute-Time", t.Tokenize+t.Inference)
	ms("X-Total-Time", t.Total)
	ms("X-Tokenization-Time", t.Tokenize)
	ms("X-Queue-Time", t.Queue)
	ms("X-Inference-Time", t.Inference)
}

// unlimited is what /info says where there is no limit: texts of any length are
// scored in windows, and requests wait by tokens, not by number.
const unlimited = math.MaxInt32

func (s *Server) teiInfo(w http.ResponseWriter, r *http.Request) error {
	serving, err := s.parts.Models.Models(r.Context())
	if err != nil {
		return err
	}
	if len(serving) == 0 {
		return ErrNotReady
	}
	return s.writeJSON(w, r, http.StatusOK, map[string]any{
		"model_id": serving[0].Name, "model_sha": serving[0].Version, "model_dtype": "auto",
		"model_type": map[string]any{"classifier": map[string]any{
			"id2label": map[string]string{"0": labelViolation, "1": labelCompliant},
			"label2id": map[string]int{labelViolation: 0, labelCompliant: 1},
		}},
		"max_concurrent_requests": unlimited, "max_input_length": unlimited, "max_batch_tokens": unlimited,
		"max_batch_requests": nil, "max_client_batch_size": s.maxResponses(), "auto_truncate": false,
		"tokenization_workers": 1, "version": "assay", "sha": nil, "docker_label": nil,
	})
}

// healthy is /readyz without a body while the service can score.
func (s *Server) healthy(w http.ResponseWriter, r *http.Request) error {
	if err := s.readiness(); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}
