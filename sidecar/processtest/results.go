package processtest

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
)

// Results decodes the output of assay score.
func Results(t *testing.T, lines string) []rewardmodel.Result {
	t.Helper()
	var out []rewardmodel.Result
	for line := range strings.Lines(lines) {
		var r rewardmodel.Result
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		out = append(out, r)
	}
	return out
}

// RequireClose compares results, numbers within the tolerance.
func RequireClose(t *testing.T, want, got string) {
	t.Helper()
	expected, actual := Results(t, want), Results(t, got)
	require.Len(t, actual, len(expected))
	for i, w := range expected {
		g := actual[i]
		require.InDelta(t, w.Reward, g.Reward, tolerance, w.ID)
		require.InDelta(t, w.Violation, g.Violation, tolerance, w.ID)
		if w.Witness != nil && g.Witness != nil {
			require.InDelta(t, w.Witness.Violation, g.Witness.Violation, tolerance, w.ID)
			g.Witness.Violation = w.Witness.Violation
		}
		require.Len(t, g.Instances, len(w.Instances), w.ID)
		for k := range w.Instances {
			require.InDelta(t, w.Instances[k].Violation, g.Instances[k].Violation, tolerance, w.ID)
		}
		g.Reward, g.Violation, g.Instances = w.Reward, w.Violation, w.Instances
		require.Equal(t, w, g, "all but the scores")
	}
}

// tolerance is how far scores in fp32 may differ between processors.
const tolerance = 1e-4
