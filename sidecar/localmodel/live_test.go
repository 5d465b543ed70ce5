package localmodel_test

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/sidecar/localmodel"
)

// With the shipped model, a live session has the result of Score, up to the rounding of
// other batches, and reports the bad sentence of nearly every response before its end.
func TestLiveWithTheShippedModel(t *testing.T) {
	opened, err := localmodel.Config{Model: "../../models/default"}.Open()
	require.NoError(t, err)
	defer opened.Close()
	m, err := opened.Load(t.Context(), rewardmodel.ScorerConfig{}, nil)
	require.NoError(t, err)
	defer m.Close()
	file, err := os.Open("../../rewardmodel/eval/testdata/smoke.jsonl")
	require.NoError(t, err)
	defer file.Close()

	random := rand.New(rand.NewPCG(1, 2))
	violating, stopped, reported, early := 0, 0, 0, 0
	for b, err := range bag.Read(file) {
		require.NoError(t, err)
		request := rewardmodel.LiveRequest{ID: b.ID, Options: rewardmodel.Options{OffsetUnit: rewardmodel.OffsetUTF16}}
		l, err := m.Live(t.Context(), request)
		require.NoError(t, err)
		want, err := m.Score(t.Context(), rewardmodel.Request{Options: request.Options, Responses: []rewardmodel.Item{{ID: b.ID, Response: &b.Response}}})
		require.NoError(t, err)
		verdict, stop := false, false
		for at := 0; at < len(b.Response); {
			cut := min(len(b.Response), at+1+random.IntN(12))
			events, err := l.Feed(t.Context(), b.Response[at:cut])
			require.NoError(t, err)
			for _, e := range events {
				verdict, stop = verdict || !e.Compliant, stop || e.Stop
			}
			at = cut
		}
		_, got, err := l.Close(t.Context())
		require.NoError(t, err)
		g, w := got.Results[0], want.Results[0]
		require.InDelta(t, w.Reward, g.Reward, 1e-3)       // bf16 with AMX rounds differently in other batches
		require.InDelta(t, w.Violation, g.Violation, 1e-3) // bf16 with AMX rounds differently in other batches
		require.Equal(t, w.Compliant, g.Compliant)
		require.Len(t, g.Instances, len(w.Instances))
		for i := range w.Instances {
			require.Equal(t, [2]int{w.Instances[i].Start, w.Instances[i].End}, [2]int{g.Instances[i].Start, g.Instances[i].End})
			require.InDelta(t, w.Instances[i].Violation, g.Instances[i].Violation, 1e-3) // bf16 with AMX rounds differently in other batches
		}
		if !w.Compliant {
			violating++
			if verdict {
				early++
			}
		} else if verdict {
			reported++
		}
		if stop {
			stopped++
			require.False(t, w.Compliant)
		}
	}
	t.Logf("%d violating: %d reported before the end, %d stops; %d compliant ones reported", violating, early, stopped, reported)
	require.Positive(t, violating)
	require.GreaterOrEqual(t, 10*early, 8*violating)
}
