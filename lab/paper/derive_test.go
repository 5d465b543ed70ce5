package paper

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A run that differs from a recorded one in its threshold alone is not trained again.
func TestThresholdNeedsNoTraining(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.jsonl")
	trained := somePlan(t, 1)[0]
	trained.Settings = trained.Settings.With(Settings{"threshold": "one-per-bag"})
	runner, _ := runnerOn(t, path, 1, func(_ context.Context, s Spec, _ func(int, int, string, float64)) (Record, error) {
		r := madeUpRecord(s, 0.7)
		r.AtThreshold = map[string]Decision{"per-bag": {Threshold: 0.3, AvgAcc: 0.8, F1Violation: 0.6}}
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
	require.InDelta(t, 0.6, r.Metrics["f1_violation"], 1e-12)
	require.NotContains(t, r.Metrics, "recall_violation")
	require.Equal(t, trained.Key(), r.WeightsOf)
}
