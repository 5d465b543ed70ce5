package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/checkpoint"
	"assay/sidecar/processtest"
)

// tinyModel has the given aspects; none: one without a name.
func tinyModel(t *testing.T, version string, names ...string) string {
	t.Helper()
	return processtest.TinyModel(t, func(cfg *checkpoint.Config, m *checkpoint.Manifest) {
		m.Version = version
		for _, name := range names {
			cfg.NumLabels, cfg.Labels = 2*len(names), checkpoint.AspectLabels(names)
			m.Aspects = append(m.Aspects, checkpoint.Aspect{Name: name, Weight: 1, Threshold: 0.5})
		}
	})
}

// The record of a model has the names of its aspects, also of a single one, which labels may name.
func TestDescribeNamesAspects(t *testing.T) {
	for _, names := range [][]string{nil, {"toxicity"}, {"toxicity", "refusal"}} {
		m, err := describe(tinyModel(t, "v1", names...))
		require.NoError(t, err)
		require.Equal(t, names, m.Aspects)
	}
}

// No time is spent on a candidate that the gate must reject.
func TestTrainRejectsABaseWithOtherAspects(t *testing.T) {
	base := tinyModel(t, "two", "toxicity", "refusal")
	w := &worker{base: base, config: Config{From: FromBase}}
	err := w.Train(t.Context(), tinyModel(t, "one"), "bags.jsonl", "out", nil)
	require.ErrorContains(t, err, `make it current (assay models promote two), or use --train-from current`)
	for _, c := range []struct{ base, current string }{
		{base, tinyModel(t, "next", "refusal", "toxicity")}, {tinyModel(t, "one"), tinyModel(t, "named", "toxicity")},
	} {
		require.NoError(t, comparableAspects(c.base, c.current))
	}
}
