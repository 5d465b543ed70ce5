package commands

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/eval"
	"assay/sidecar/localmodel"
)

// instanceScorer gives the utterances of items a violation of 0.5 for each aspect.
type instanceScorer []rewardmodel.Aspect

func (s instanceScorer) Score(ctx context.Context, req rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	var out rewardmodel.ScoreResponse
	for _, item := range req.Responses {
		r := rewardmodel.Result{ID: item.ID}
		segments, err := localmodel.BagOf(item).Segments(ctx, 0, nil)
		if err != nil {
			return out, err
		}
		for range segments {
			violations := map[string]float64{}
			for _, a := range s {
				violations[a.Name] = 0.5
			}
			r.Instances = append(r.Instances, rewardmodel.Instance{Aspects: violations})
		}
		out.Results = append(out.Results, r)
	}
	return out, nil
}

func TestEvaluationLocatesInstances(t *testing.T) {
	aspects := []rewardmodel.Aspect{{Name: "toxicity", Weight: 1}}
	words := func(s string) (int, error) { return len(strings.Fields(s)), nil }
	e := evaluation{Evaluator: localmodel.Evaluator{Aspects: aspects, Room: 100, Length: words, Scorer: instanceScorer(aspects)}}
	err := e.add(t.Context(), []bag.Bag{
		{ID: "a", Label: bag.Violation, Response: "Grüße!  You fool.", Spans: [][2]int{{12, 16}}},
		{ID: "b", Label: bag.Violation, Response: "You fool."},
		{ID: "c", Label: bag.Compliant, Instances: []string{""}, Spans: [][2]int{}},
	})
	require.NoError(t, err)
	scores := e.verdicts
	require.Equal(t, [][2]int{{0, 6}, {8, 17}}, scores[0].Spans)
	require.Equal(t, [][2]int{{12, 16}}, scores[0].GoldSpans)
	require.Nil(t, scores[1].Spans)
	require.Nil(t, scores[2].Spans)
}

// Each aspect is evaluated on the bags that have a label for it, and the verdicts on all.
func TestEvaluationOfAspects(t *testing.T) {
	aspects := []rewardmodel.Aspect{{Name: "toxicity", Weight: 1}, {Name: "refusal", Weight: 1}}
	length := func(s string) (int, error) { return len(s), nil }
	e := evaluation{Evaluator: localmodel.Evaluator{Aspects: aspects, Room: 100, Length: length, Scorer: instanceScorer(aspects)}}
	label := func(b bag.Bag, labels map[string]bag.Label) bag.Bag { b.Labels = labels; return b }
	err := e.add(t.Context(), []bag.Bag{
		label(bag.Bag{ID: "a", Response: "One. Two.", Witness: new(1)}, map[string]bag.Label{"toxicity": bag.Violation, "refusal": bag.Compliant}),
		label(bag.Bag{ID: "b", Response: "Three."}, map[string]bag.Label{"refusal": bag.Violation}),
		{ID: "c", Label: bag.Compliant, Response: "Four."},
		label(bag.Bag{ID: "e", Response: "Six."}, map[string]bag.Label{"toxicity": bag.Compliant}),
		{ID: "d", Label: bag.Violation, Response: "Five."},
	})
	require.NoError(t, err)
	labels := func(bags []eval.BagScores) (out []bag.Label) {
		for _, b := range bags {
			out = append(out, b.Label)
		}
		return out
	}
	require.Equal(t, []bag.Label{bag.Violation, bag.Compliant, bag.Compliant}, labels(e.bags[0]))
	require.Equal(t, []bag.Label{bag.Compliant, bag.Violation, bag.Compliant}, labels(e.bags[1]))
	require.Equal(t, []bag.Label{bag.Violation, bag.Violation, bag.Compliant, bag.Violation}, labels(e.verdicts), "what is labeled compliant for one aspect has no verdict")
	require.Equal(t, []bool{false, true}, e.bags[0][0].Gold)
	require.Equal(t, []bool{false, false}, e.bags[1][0].Gold, "what is marked violates the other aspect")
	report, err := e.report(nil, eval.Bootstrap{})
	require.NoError(t, err)
	line, err := report.MarshalJSON()
	require.NoError(t, err)
	var flat struct {
		BagAUROC *float64 `json:"bag_auroc"`
		Aspects  map[string]map[string]float64
	}
	require.NoError(t, json.Unmarshal(line, &flat))
	require.Equal(t, 0.5, *flat.BagAUROC)
	require.Contains(t, flat.Aspects["refusal"], "avg_acc")
	_, err = e.report(new(0.3), eval.Bootstrap{})
	require.ErrorContains(t, err, "--threshold applies to a model with one aspect")
}

// The aspects are evaluated if no bag has the labels for a verdict on the whole response.
func TestEvaluationWithoutVerdicts(t *testing.T) {
	aspects := []rewardmodel.Aspect{{Name: "toxicity", Weight: 1}, {Name: "refusal", Weight: 1}}
	e := evaluation{Evaluator: localmodel.Evaluator{
		Aspects: aspects, Room: 100, Length: func(s string) (int, error) { return len(s), nil }, Scorer: instanceScorer(aspects),
	}}
	require.NoError(t, e.add(t.Context(), []bag.Bag{
		{ID: "a", Response: "One.", Labels: map[string]bag.Label{"toxicity": bag.Compliant}},
		{ID: "b", Response: "Two.", Labels: map[string]bag.Label{"style": bag.Violation}},
	}))
	report, err := e.report(nil, eval.Bootstrap{Resamples: 2})
	require.NoError(t, err)
	line, err := json.Marshal(report)
	require.NoError(t, err)
	var out map[string]map[string]map[string]any
	require.NoError(t, json.Unmarshal(line, &out))
	require.Len(t, out, 1, "no metrics of verdicts")
	require.Contains(t, out["aspects"]["toxicity"], "avg_acc")
	require.NotContains(t, out["aspects"], "refusal")
}
