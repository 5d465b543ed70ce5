package paper

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A run that differs from a recorded one only in its threshold is not trained again.
func TestThresholdNeedsNoTraining(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.jsonl")
	trained := somePlan(t, 1)[0]
	trained.Settings = trained.Settings.With(Settings{"threshold": "one-per-bag"})
	runner, _ := runnerOn(t, path, 1, func(_ context.Context, s Spec, _ func(int, int, string, float64)) (Record, error) {
		r := syntheticRecord(s, 0.7)
		r.AtThreshold = map[string]Decision{"per-bag": {Threshold: 0.3, AvgAcc: 0.8, F1Violation: 0.8}}
		return r, nil
	})
	_, err := runner.Do(t.Context(), []Spec{trained})
	require.NoError(t, err)

	runner.Run = func(context.Context, Spec, func(int, int, string, float64)) (Record, error) {
		return Record{}, errors.New("trained again")
	}
	other, unknown, seed := trained, trained, trained
	other.Settings = trained.Settings.With(Settings{"threshold": "per-bag"})
	unknown.Settings = trained.Settings.With(Settings{"threshold": "quantile"})
	seed.Settings, seed.Seed = other.Settings, trained.Seed+1
	outcome, err := runner.Do(t.Context(), []Spec{other, unknown, seed})
	require.NoError(t, err)
	require.Equal(t, 1, outcome.Done)
	require.Len(t, outcome.Failed, 2)

	r := runner.Store.Records()[1]
	require.Equal(t, other.Key(), r.Key)
	require.InDelta(t, 0.3, r.Threshold, 1e-12)
	require.InDelta(t, 0.8, r.Metrics["avg_acc"], 1e-12)
	for _, name := range []string{"f1_violation", "f1_compliant", "recall_violation", "recall_compliant"} {
		require.InDelta(t, 0.8, r.Metrics[name], 1e-12, name)
	}
	require.Equal(t, trained.Key(), r.WeightsOf)
}

// AvgAcc and one F1 determine the whole confusion matrix.
func TestDecisionMetrics(t *testing.T) {
	for name, c := range map[string]struct{ found, anomalous, kept, normal float64 }{
		"mixed":           {100, 181, 143, 181},
		"unbalanced":      {30, 40, 299, 300},
		"all normal":      {0, 181, 181, 181},
		"all anomalous":   {181, 181, 0, 181},
		"always right":    {43, 43, 43, 43},
		"always wrong":    {0, 43, 0, 43},
		"one class found": {43, 43, 1, 43},
	} {
		recall, specificity := c.found/c.anomalous, c.kept/c.normal
		f1 := func(hits, misses, alarms float64) float64 { return 2 * hits / (2*hits + misses + alarms) }
		d := Decision{AvgAcc: (recall + specificity) / 2, F1Violation: f1(c.found, c.anomalous-c.found, c.normal-c.kept)}
		got := d.metrics(Counts{TestViolation: int(c.anomalous), TestCompliant: int(c.normal)})
		require.InDelta(t, recall, got["recall_violation"], 1e-9, name)
		require.InDelta(t, specificity, got["recall_compliant"], 1e-9, name)
		require.InDelta(t, f1(c.kept, c.normal-c.kept, c.anomalous-c.found), got["f1_compliant"], 1e-9, name)
	}
	require.NotContains(t, Decision{AvgAcc: 0.8, F1Violation: 0.1}.metrics(Counts{TestViolation: 10, TestCompliant: 10}), "f1_compliant",
		"no confusion matrix has these numbers")
}
