package localmodel_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/eval"
	"assay/sidecar/localmodel"
)

// aspectScorer gives every instance these violations.
type aspectScorer map[string]float64

func (s aspectScorer) Score(ctx context.Context, req rewardmodel.Request) (out rewardmodel.ScoreResponse, err error) {
	for _, item := range req.Responses {
		r := rewardmodel.Result{ID: item.ID, Reward: 0.25}
		segments, err := localmodel.BagOf(item).Segments(ctx, 0, nil)
		if err != nil {
			return out, err
		}
		for range segments {
			r.Instances = append(r.Instances, rewardmodel.Instance{Aspects: s})
		}
		out.Results = append(out.Results, r)
	}
	return out, nil
}

// A response may be judged by all aspects of a model, or by those that it has labels for.
func TestEvaluatorJudgesByLabels(t *testing.T) {
	several := []rewardmodel.Aspect{{Name: "hate", Weight: 1}, {Name: "harm", Weight: 1}, {Name: "watched"}}
	unnamed, named := []rewardmodel.Aspect{{Name: rewardmodel.DefaultAspect, Weight: 1}}, several[:1]
	scores := aspectScorer{"hate": 0.2, "harm": 0.7, "watched": 0.9, rewardmodel.DefaultAspect: 0.3}
	only := func(aspect string, label bag.Label) bag.Bag {
		return bag.Bag{Labels: map[string]bag.Label{aspect: label}}
	}
	type judged struct {
		label bag.Label
		score float64
		ok    bool
	}
	unknown := judged{}
	for name, c := range map[string]struct {
		aspects         []rewardmodel.Aspect
		bag             bag.Bag
		verdict, labels judged
	}{
		"all comply":                {several, bag.Bag{Label: bag.Compliant}, judged{bag.Compliant, 0.7, true}, judged{bag.Compliant, 0.7, true}},
		"a violation of any":        {several, bag.Bag{Label: bag.Violation}, judged{bag.Violation, 0.7, true}, judged{bag.Violation, 0.7, true}},
		"one complies":              {several, only("hate", bag.Compliant), unknown, judged{bag.Compliant, 0.2, true}},
		"one is violated":           {several, only("hate", bag.Violation), judged{bag.Violation, 0.7, true}, judged{bag.Violation, 0.2, true}},
		"one that does not count":   {several, only("watched", bag.Compliant), unknown, unknown},
		"one that it does not have": {several, only("lies", bag.Compliant), unknown, unknown},
		"unnamed":                   {unnamed, only("hate", bag.Violation), unknown, judged{bag.Violation, 0.3, true}},
		"another name":              {named, only("harm", bag.Violation), unknown, unknown},
	} {
		e := localmodel.Evaluator{Aspects: c.aspects, Room: 100, Length: func(s string) (int, error) { return len(s), nil }, Scorer: scores}
		c.bag.Response = "One."
		scored, err := e.Score(t.Context(), []bag.Bag{c.bag})
		require.NoError(t, err, name)
		require.Equal(t, 0.25, scored[0].Reward)
		of := func(scores eval.BagScores, ok bool) judged {
			if !ok {
				return unknown
			}
			return judged{scores.Label, float64(int(scores.Violation()*1e6+0.5)) / 1e6, ok}
		}
		require.Equal(t, c.verdict, of(e.OfVerdict(scored[0])), "%s: verdict", name)
		require.Equal(t, c.labels, of(e.OfLabels(scored[0])), "%s: labels", name)
	}
}

// Violations and thresholds of 0 and 1 are compared as any other.
func TestEvaluatorAtTheEndsOfTheScale(t *testing.T) {
	for _, threshold := range []float64{0, 1} {
		at := map[rewardmodel.Aggregate]float64{rewardmodel.AggregateMax: threshold}
		for _, violation := range []float64{0, 0.5, 1} {
			e := localmodel.Evaluator{
				Aspects: []rewardmodel.Aspect{{Name: "a", Weight: 1, Thresholds: at}, {Name: "b", Weight: 1, Thresholds: at}},
				Room:    100, Length: func(s string) (int, error) { return len(s), nil },
				Scorer: aspectScorer{"a": violation, "b": violation},
			}
			scored, err := e.Score(t.Context(), []bag.Bag{{Label: bag.Violation, Response: "One."}})
			require.NoError(t, err)
			scores, _ := e.OfVerdict(scored[0])
			require.Equal(t, violation > threshold, scores.Violations[0] > 0.5, "%v at %v", violation, threshold)
		}
	}
}

// A response is ranked and judged by its violation less the correction for its length; the scores of its utterances, and its
// violation as a probability, have none.
func TestEvaluatorCorrectsForTheLength(t *testing.T) {
	at := map[rewardmodel.Aggregate]float64{rewardmodel.AggregateMax: 0.8}
	long := rewardmodel.Aspect{Name: "long", Weight: 1, Thresholds: at, LengthSlope: 1}
	plain := rewardmodel.Aspect{Name: "plain", Weight: 1, Thresholds: at}
	for name, c := range map[string]struct {
		aspects  []rewardmodel.Aspect
		response string
		score    float64 // odds
		flagged  bool
	}{
		"one utterance":         {[]rewardmodel.Aspect{long}, "One.", 9, true},
		"two":                   {[]rewardmodel.Aspect{long}, "One. Two.", 4.5, true},
		"three":                 {[]rewardmodel.Aspect{long}, "One. Two. Three.", 3, false},
		"without a slope":       {[]rewardmodel.Aspect{plain}, "One. Two. Three.", 9, true},
		"several, one":          {[]rewardmodel.Aspect{long, plain}, "One.", 9. / 4, true},
		"several, three":        {[]rewardmodel.Aspect{long, plain}, "One. Two. Three.", 3. / 4, false},
		"several, by the other": {[]rewardmodel.Aspect{long, {Name: "plain", Weight: 1}}, "One. Two. Three.", 1.5, true},
	} {
		e := localmodel.Evaluator{Aspects: c.aspects, Room: 100, Length: func(s string) (int, error) { return len(s), nil },
			Scorer: aspectScorer{"long": 0.9, "plain": map[bool]float64{false: 0.6, true: 0.9}[len(c.aspects) == 1]}}
		scored, err := e.Score(t.Context(), []bag.Bag{{ID: "a", Label: bag.Violation, Response: c.response}})
		require.NoError(t, err, name)
		scores, ok := e.OfVerdict(scored[0])
		require.True(t, ok, name)
		require.InDelta(t, c.score, scores.Score()/(1-scores.Score()), 1e-9, name)
		if len(c.aspects) == 1 {
			require.InDelta(t, 0.9, scores.Violation(), 1e-9, name)
		}
		report, err := eval.Evaluate([]eval.BagScores{scores}, e.Threshold(), eval.Bootstrap{})
		require.NoError(t, err, name)
		require.Equal(t, c.flagged, report.Metrics["recall_violation"] == 1, name)
	}
}
