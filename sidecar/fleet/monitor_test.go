package fleet

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/retrain"
)

// A panic while a feedback text is scored does not end the process.
func TestMonitorSurvivesAPanic(t *testing.T) {
	m := newMonitor(nil, panickyScorer{}, prometheus.NewRegistry(), zerolog.Nop())
	require.ErrorContains(t, m.compare(t.Context(), labeled{}), "panic: boom")
}

type panickyScorer struct{}

func (panickyScorer) Score(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	panic("boom")
}

// Drift and disagreement are those of each aspect.
func TestMonitorOfSeveralAspects(t *testing.T) {
	aspects := []string{"toxicity", "refusal"}
	refs := &fakeReferences{scores: map[string][]float64{}}
	reg := prometheus.NewPedanticRegistry()
	m := newMonitor(refs, aspectScorer{}, reg, zerolog.Nop())
	m.watch("v1", aspects)
	score := func(n int, toxicity, refusal float64) {
		for i := range n {
			spread := float64(i%100) / 1000
			m.scored(rewardmodel.Request{}, rewardmodel.ScoreResponse{Model: rewardmodel.ModelInfo{Version: "v1"}, Results: []rewardmodel.Result{
				{Violation: max(toxicity, refusal), Scores: []rewardmodel.AspectScore{
					{Aspect: "toxicity", Violation: toxicity + spread}, {Aspect: "refusal", Violation: refusal + spread},
				}},
			}})
		}
	}
	score(retrain.WindowSize, 0.8, 0.1)
	require.NoError(t, m.share(t.Context()))
	require.Len(t, refs.scores, 2)
	score(retrain.WindowSize, 0.8, 0.5) // the worst aspect is as before
	drift := m.Drift()
	require.Equal(t, "refusal", drift.Aspect)
	require.Greater(t, drift.Distance, 0.9)
	require.Less(t, drift.Aspects["toxicity"].Distance, 0.1)
	require.Equal(t, map[string]float64{
		"assay_drift_distance toxicity": drift.Aspects["toxicity"].Distance, "assay_drift_distance refusal": drift.Distance,
		"assay_drift_p_value toxicity": drift.Aspects["toxicity"].PValue, "assay_drift_p_value refusal": drift.PValue,
	}, gauges(t, reg))

	for i, labels := range []feedback.Labels{
		{Aspects: map[string]bag.Label{"toxicity": bag.Violation, "refusal": bag.Violation, "mistyped": bag.Violation}},
		{Whole: bag.Compliant},
		{Whole: bag.Violation},
	} {
		entry := feedback.Entry{Item: feedback.Item{Bag: bag.Bag{ID: string(rune('a' + i)), Label: labels.Whole, Labels: labels.Aspects, Response: "x"}}}
		m.addLabels([]feedback.Entry{entry})
	}
	require.NoError(t, m.compare(t.Context(), <-m.labels))
	require.Equal(t, retrain.Disagreement{Labels: 2, Against: 1, Aspects: map[string]retrain.Disagreement{
		"toxicity": {Labels: 2, Against: 1}, "refusal": {Labels: 2, Against: 1},
	}}, m.Disagreement())
	require.Equal(t, 1., testutil.ToFloat64(m.counted.WithLabelValues("refusal", "violation")))
	require.Equal(t, 1., testutil.ToFloat64(m.counted.WithLabelValues(otherAspect, "violation")))
	require.Equal(t, 1., testutil.ToFloat64(m.counted.WithLabelValues("", "compliant")))

	m.watch("v2", nil)
	require.Len(t, m.series, 1)
	require.Equal(t, retrain.Drift{PValue: 1}, m.Drift())
	require.Equal(t, map[string]float64{"assay_drift_distance ": 0, "assay_drift_p_value ": 1}, gauges(t, reg), "those of v1 are gone")
	require.Equal(t, retrain.Disagreement{}, m.Disagreement())
}

// gauges returns the values of the gauges by name and aspect.
func gauges(t *testing.T, reg prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if m.GetGauge() != nil {
				values[family.GetName()+" "+m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return values
}

// aspectScorer decides that every response violates toxicity and complies with refusal.
type aspectScorer struct{}

func (aspectScorer) Score(_ context.Context, req rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	out := rewardmodel.ScoreResponse{Model: rewardmodel.ModelInfo{Version: "v1"}}
	for range req.Responses {
		out.Results = append(out.Results, rewardmodel.Result{Aspects: map[string]rewardmodel.AspectResult{
			"toxicity": {Compliant: false}, "refusal": {Compliant: true},
		}})
	}
	return out, nil
}

type fakeReferences struct{ scores map[string][]float64 }

func (f *fakeReferences) Reference(_ context.Context, version string) ([]float64, error) {
	return f.scores[version], nil
}

func (f *fakeReferences) SetReference(_ context.Context, version string, scores []float64) error {
	f.scores[version] = scores
	return nil
}
