package rewardmodel

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"assay/rewardmodel/logistic"
)

// newScorer starts a scorer with the test tokenizer and closes it at the end of the test.
func newScorer(t testing.TB, cfg ScorerConfig, model Model) *Scorer {
	t.Helper()
	if cfg.Version == "" {
		cfg.Version = "v1"
	}
	s, err := NewScorer(cfg, model, words{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func score(t testing.TB, s *Scorer, req Request) []Result {
	t.Helper()
	response, err := s.Score(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return response.Results
}

func responses(texts ...string) Request {
	var req Request
	for _, text := range texts {
		req.Responses = append(req.Responses, Item{Response: &text})
	}
	return req
}

// wordMargin returns a model whose margin of an instance is that of its worst word.
func wordMargin(margins map[string]float32) Model {
	byID := make(map[int32]float32)
	for word, m := range margins {
		byID[words{}.IDs(word)[0]] = m
	}
	return modelFunc(func(batch []Sequence) ([]float32, error) {
		out := make([]float32, len(batch))
		for i, ids := range batch {
			out[i] = -5
			for _, id := range ids.IDs {
				if m, ok := byID[id]; ok {
					out[i] = max(out[i], m)
				}
			}
		}
		return out, nil
	})
}

func TestScore(t *testing.T) {
	s := newScorer(t, ScorerConfig{Name: "m", Aspects: oneAspect(map[Aggregate]float64{AggregateMax: 0.6, AggregateMean: 0.3}, nil)},
		wordMargin(map[string]float32{"stink.": 3, "meh.": 0}))
	response, err := s.Score(t.Context(), Request{
		Responses: []Item{
			{ID: "a", Response: new("Hello 😀 there. You stink. Bye now.")},
			{Response: new("All good.")},
		},
		Options: Options{OffsetUnit: OffsetUTF16},
	})
	if err != nil {
		t.Fatal(err)
	}
	if response.Model != (ModelInfo{Name: "m", Version: "v1"}) || response.OffsetUnit != OffsetUTF16 {
		t.Errorf("got %+v", response)
	}
	bad := response.Results[0]
	want := Result{
		ID: "a", Reward: logistic.Sigmoid(logistic.Logit(0.6) - 3), Violation: logistic.Sigmoid(3), Threshold: 0.6,
		Witness:   &Witness{Index: 1, Start: 16, End: 26, Text: "You stink.", Violation: logistic.Sigmoid(3)},
		Instances: []Instance{{Start: 0, End: 15, Violation: logistic.Sigmoid(-5)}, {Start: 16, End: 26, Violation: logistic.Sigmoid(3)}, {Start: 27, End: 35, Violation: logistic.Sigmoid(-5)}},
	}
	if !reflect.DeepEqual(bad, want) {
		t.Errorf("got  %+v %+v\nwant %+v %+v", bad, bad.Witness, want, want.Witness)
	}
	if good := response.Results[1]; good.ID == "" || !good.Compliant || good.Reward < 0.99 {
		t.Errorf("got %+v", good)
	}
	for aggregate, threshold := range map[Aggregate]float64{AggregateMax: 0.6, AggregateMean: 0.3, AggregateTopK: 0.6} {
		req := responses("All good.")
		req.Options.Aggregate = aggregate
		if got := score(t, s, req)[0].Threshold; got != threshold {
			t.Errorf("%s: threshold %v, want %v", aggregate, got, threshold)
		}
	}
}

func TestScoreMessages(t *testing.T) {
	s := newScorer(t, ScorerConfig{}, wordMargin(map[string]float32{"stink.": 3}))
	result := score(t, s, Request{Responses: []Item{{Messages: []Message{
		{"user", "You stink."}, {"assistant", "Hi."}, {"user", "Go on."}, {"assistant", "<think>You stink.</think>é. You stink."},
	}}}})[0]
	w := result.Witness
	if w == nil || *w.Message != 3 || w.Start != 28 || w.End != 38 || w.Text != "You stink." {
		t.Errorf("got %+v", w)
	}
	if first := result.Instances[0]; *first.Message != 1 || first.End != 3 {
		t.Errorf("got %+v", first)
	}
}

func TestScoreInstances(t *testing.T) {
	s := newScorer(t, ScorerConfig{MaxLength: 12}, wordMargin(map[string]float32{"stink.": 3}))
	long := strings.Repeat("nice and long ", 30) + "you stink. " + strings.Repeat("so long ", 30)
	result := score(t, s, Request{Responses: []Item{{Instances: []string{"One. Two.", "  ", long}}}})[0]
	if len(result.Instances) != 3 || result.Instances[0].End != 9 || result.Instances[2].End != len(long) {
		t.Errorf("the instances were split: %+v", result.Instances)
	}
	if result.Instances[1].Violation != 0 {
		t.Errorf("a blank instance has violation %v", result.Instances[1].Violation)
	}
	if result.Witness.Index != 2 || result.Witness.Text != long || result.Violation != logistic.Sigmoid(3) {
		t.Errorf("the violation in the middle of a long instance was missed: %+v", result)
	}
}

func TestScoreReasoning(t *testing.T) {
	s := newScorer(t, ScorerConfig{}, wordMargin(map[string]float32{"stink.": 3}))
	req := responses("<think> They stink. </think> Hello.")
	if r := score(t, s, req)[0]; len(r.Instances) != 1 || r.Witness.Text != "Hello." || r.Witness.Start != 29 {
		t.Errorf("got %+v %+v", r, r.Witness)
	}
	req.Options.Reasoning = ReasoningScore
	if r := score(t, s, req)[0]; r.Compliant {
		t.Errorf("reasoning was not scored: %+v", r)
	}
	if r := score(t, s, responses("<think>They stink."))[0]; !r.Empty {
		t.Errorf("a rollout cut off while it reasons has something to score: %+v", r)
	}
}

func TestScoreEmpty(t *testing.T) {
	for _, compliance := range []float64{0, 0.25, 1} {
		s := newScorer(t, ScorerConfig{EmptyReward: compliance, Aspects: oneAspect(map[Aggregate]float64{AggregateMax: 0.8}, nil)}, modelFunc(hashMargins))
		req := responses("", " \n\t\u3000")
		req.Responses = append(req.Responses, Item{Messages: []Message{{"user", "hi"}}}, Item{Instances: []string{}}, Item{Instances: []string{" "}})
		for i, r := range score(t, s, req) {
			if !r.Empty || r.Witness != nil || r.Reward != compliance || r.Compliant != (compliance >= 0.5) || r.Truncated {
				t.Errorf("item %d: got %+v", i, r)
			}
		}
	}
}

func TestScoreTruncates(t *testing.T) {
	s := newScorer(t, ScorerConfig{MaxInstances: 3}, modelFunc(hashMargins))
	chat := []Message{{"assistant", "One. Two."}, {"assistant", "Three. Four."}, {"assistant", "Five."}}
	for name, test := range map[string]struct {
		item      Item
		truncated bool
	}{
		"response":  {Item{Response: new("One. Two. Three. Four. Five.")}, true},
		"as many":   {Item{Response: new("One. Two. Three.")}, false},
		"messages":  {Item{Messages: chat}, true},
		"instances": {Item{Instances: []string{"a", "b", "c", "d"}}, true},
	} {
		r := score(t, s, Request{Responses: []Item{test.item}})[0]
		if r.Truncated != test.truncated || len(r.Instances) != 3 {
			t.Errorf("%s: truncated %v with %d instances", name, r.Truncated, len(r.Instances))
		}
	}
}

func TestScoreWithoutInstances(t *testing.T) {
	s := newScorer(t, ScorerConfig{}, modelFunc(hashMargins))
	req := responses("One. Two.")
	req.Options.Instances = new(false)
	response, err := s.Score(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if r := response.Results[0]; r.Instances != nil || r.Witness == nil {
		t.Errorf("got %+v", r)
	}
}

func TestScoreRejects(t *testing.T) {
	s := newScorer(t, ScorerConfig{Name: "assay", Version: "v7"}, modelFunc(hashMargins))
	for name, test := range map[string]struct {
		req   Request
		kind  ErrorKind
		field string
	}{
		"nothing":        {Request{}, KindUnprocessable, "responses"},
		"another model":  {Request{Responses: responses("a").Responses, Model: "v8"}, KindNotFound, "model"},
		"an empty item":  {Request{Responses: []Item{{}}}, KindInvalid, "responses[0]"},
		"unknown option": {Request{Responses: responses("a").Responses, Options: Options{Reward: "x"}}, KindInvalid, "options.reward"},
	} {
		_, err := s.Score(t.Context(), test.req)
		var input *InputError
		if !errors.As(err, &input) || input.Kind != test.kind || input.Field != test.field {
			t.Errorf("%s: got %#v", name, err)
		}
	}
	for _, pin := range []string{"", "assay", "v7"} {
		if _, err := s.Score(t.Context(), Request{Responses: responses("a").Responses, Model: pin}); err != nil {
			t.Errorf("model %q: %v", pin, err)
		}
	}
}

func TestNewScorerRejects(t *testing.T) {
	for want, cfg := range map[string]ScorerConfig{
		"Version":              {},
		"thresholds[max]":      {Version: "v", Aspects: oneAspect(map[Aggregate]float64{AggregateMax: math.NaN()}, nil)},
		"thresholds[median]":   {Version: "v", Aspects: oneAspect(map[Aggregate]float64{"median": 0.5}, nil)},
		"EmptyReward":          {Version: "v", EmptyReward: 1.5},
		"MaxLength is 2":       {Version: "v", MaxLength: 2},
		"MaxInstances is -1":   {Version: "v", MaxInstances: -1},
		"CacheBytes":           {Version: "v", CacheBytes: -1},
		"MaxBatchTokens is -1": {Version: "v", MaxBatchTokens: -1},
		"MaxQueueTokens is -1": {Version: "v", MaxQueueTokens: -1},
	} {
		if _, err := NewScorer(cfg, modelFunc(hashMargins), words{}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

// Results are finite for extreme margins, also with a threshold of 0 or 1.
func TestResultsAreFinite(t *testing.T) {
	extreme := modelFunc(func(batch []Sequence) ([]float32, error) {
		out := make([]float32, len(batch))
		for i := range out {
			out[i] = []float32{math.MaxFloat32, -math.MaxFloat32, 0, 50, -50}[len(batch[i].IDs)%5]
		}
		return out, nil
	})
	for _, threshold := range []float64{0, 0.5, 1} {
		s := newScorer(t, ScorerConfig{Aspects: oneAspect(map[Aggregate]float64{AggregateMax: threshold}, nil)}, extreme)
		for _, kind := range Aggregates() {
			for _, scale := range []Reward{RewardCompliance, RewardLogit, RewardRaw} {
				req := responses("", "a", "a b", "a b c", "a b c d", "a b c d e", "a. b c. d e f. g h i j.")
				req.Options = Options{Reward: scale, Aggregate: kind}
				for i, r := range score(t, s, req) {
					if _, err := json.Marshal(r); err != nil {
						t.Errorf("%s, %s, T %v, result %d: %v in %+v", kind, scale, threshold, i, err, r)
					}
				}
			}
		}
	}
}

func TestMetrics(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	for _, version := range []string{"v1", "v2", "v1"} { // a version that is loaded again uses its metrics
		s, err := NewScorer(ScorerConfig{Version: version, CacheBytes: 1 << 16}, modelFunc(hashMargins), words{}, reg)
		if err != nil {
			t.Fatal(err)
		}
		score(t, s, responses("Same. Same. Other.", "Same."))
		score(t, s, responses("Other."))
		s.Close()
		if _, err := s.Score(context.Background(), responses("a")); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	want := `
# HELP assay_cache_hits_total Instances that were scored without the model.
# TYPE assay_cache_hits_total counter
assay_cache_hits_total{model_version="v1"} 6
assay_cache_hits_total{model_version="v2"} 3
# HELP assay_cache_misses_total Instances that the model had to score.
# TYPE assay_cache_misses_total counter
assay_cache_misses_total{model_version="v1"} 4
assay_cache_misses_total{model_version="v2"} 2
# HELP assay_instances_total Instances in requests, including cached and repeated ones.
# TYPE assay_instances_total counter
assay_instances_total{model_version="v1"} 10
assay_instances_total{model_version="v2"} 5
# HELP assay_queue_tokens Tokens of admitted requests that the model has not computed yet.
# TYPE assay_queue_tokens gauge
assay_queue_tokens{model_version="v1"} 0
assay_queue_tokens{model_version="v2"} 0
# HELP assay_requests_rejected_total Requests without a result by reason: overloaded, closed, canceled or model.
# TYPE assay_requests_rejected_total counter
assay_requests_rejected_total{model_version="v1",reason="canceled"} 0
assay_requests_rejected_total{model_version="v1",reason="closed"} 2
assay_requests_rejected_total{model_version="v1",reason="model"} 0
assay_requests_rejected_total{model_version="v1",reason="overloaded"} 0
assay_requests_rejected_total{model_version="v2",reason="canceled"} 0
assay_requests_rejected_total{model_version="v2",reason="closed"} 1
assay_requests_rejected_total{model_version="v2",reason="model"} 0
assay_requests_rejected_total{model_version="v2",reason="overloaded"} 0
# HELP assay_responses_total Responses that were scored.
# TYPE assay_responses_total counter
assay_responses_total{model_version="v1"} 6
assay_responses_total{model_version="v2"} 3
`
	err := testutil.GatherAndCompare(reg, strings.NewReader(want), "assay_cache_hits_total", "assay_cache_misses_total",
		"assay_instances_total", "assay_queue_tokens", "assay_requests_rejected_total", "assay_responses_total")
	if err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
}
