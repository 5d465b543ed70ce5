package paper

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/eval"
)

func scored(label bag.Label, scores ...float64) eval.BagScores {
	return eval.BagScores{Label: label, Violations: scores}
}

func TestMeasure(t *testing.T) {
	bags := []eval.BagScores{
		scored(bag.Violation, 0.1, 0.9), scored(bag.Violation, 0.4, 0.2), scored(bag.Compliant, 0.3), scored(bag.Compliant, 0.5),
	}
	m, err := Measure(bags, 0.6)
	require.NoError(t, err)
	require.InDelta(t, 0.75, m[avgAcc], 1e-12)
	require.InDelta(t, 0.75, m[BestAvgAcc], 1e-12)
	require.InDelta(t, 0.75, m[bagAUROC], 1e-12)
	_, err = Measure(nil, 0.5)
	require.ErrorIs(t, err, eval.ErrInput)
}

// The best threshold is the best of all possible ones.
func TestBestAvgAccIsTheBest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var bags []eval.BagScores
		for range 1 + rng.IntN(12) {
			label := bag.Compliant
			if rng.IntN(2) == 0 {
				label = bag.Violation
			}
			bags = append(bags, scored(label, float64(rng.IntN(6))/5))
		}
		want := 0.0
		for _, threshold := range []float64{0, 0.1, 0.3, 0.5, 0.7, 0.9, 1} {
			m, err := eval.Evaluate(bags, threshold, eval.Bootstrap{})
			require.NoError(t, err)
			want = max(want, m.Metrics[avgAcc])
		}
		// no threshold in [0,1] flags a bag that scores 0, which a threshold below all scores would
		require.GreaterOrEqual(t, bestAvgAcc(bags), want-1e-12)
		zero := false
		for _, b := range bags {
			zero = zero || b.Violation() == 0
		}
		if !zero {
			require.InDelta(t, want, bestAvgAcc(bags), 1e-12)
		}
	}
}

func TestHistograms(t *testing.T) {
	h := NewHistograms([]eval.BagScores{scored(bag.Violation, 1), scored(bag.Violation, 0.5, 0.51), scored(bag.Compliant, 0), scored(bag.Compliant)})
	require.Equal(t, 1, h.Violation[HistogramBins-1])
	require.Equal(t, 1, h.Violation[20])
	require.Equal(t, 2, h.Compliant[0])
}

func TestLossCurveStaysShort(t *testing.T) {
	var c LossCurve
	for step := range 10000 {
		stage := "a"
		if step%1000 >= 700 {
			stage = "b"
		}
		c.Add(step, stage, float64(step))
	}
	points := c.Points()
	require.LessOrEqual(t, len(points), maxLossPoints)
	require.GreaterOrEqual(t, len(points), maxLossPoints/3)
	require.Equal(t, 0, points[0].Step)
	require.Greater(t, points[len(points)-1].Step, 9700)
	stages := map[string]bool{}
	for i, p := range points {
		stages[p.Stage] = true
		require.True(t, i == 0 || p.Step > points[i-1].Step)
	}
	require.Len(t, stages, 2)
}
