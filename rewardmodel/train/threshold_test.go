package train

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/rewardmodel/logistic"
)

// tailBags are compliant bags of 1 to 100 instances, whose margins have an exponential tail of the given scale: the maximum
// of n of them is about scale*ln(n) larger than one.
func tailBags(n int, scale float64) (*Data, []Score) {
	rng := rand.New(rand.NewPCG(7, 7))
	d, scores := &Data{}, make([]Score, n)
	for i := range scores {
		length := int(math.Exp(rng.Float64() * math.Log(100)))
		d.Bags = append(d.Bags, Bag{Instances: make([][]int32, length)})
		for range length {
			scores[i].Instances = append(scores[i].Instances, scale*rng.ExpFloat64()-3)
		}
		scores[i].Bag = slices.Max(scores[i].Instances)
	}
	return d, scores
}

// flaggedShare is the share of bags of the lengths from least up to below more that exceed their threshold.
func flaggedShare(scores []Score, threshold, slope float64, least, more int) float64 {
	flagged, all := 0.0, 0.0
	for _, s := range scores {
		if n := len(s.Instances); n >= least && n < more {
			all++
			if s.Bag > threshold+slope*math.Log(float64(n)) {
				flagged++
			}
		}
	}
	return flagged / all
}

func TestFalseAlarmsAtEveryLength(t *testing.T) {
	for _, scale := range []float64{0.5, 1, 2} {
		d, scores := tailBags(5000, scale)
		const share = 0.05
		thresholds, threshold, slope := falseAlarms(d, scores, share)
		require.InDelta(t, scale, slope, 0.2*scale)
		require.InDelta(t, share, flaggedShare(scores, threshold, slope, 1, 1000), 0.001)
		for _, lengths := range [][2]int{{1, 3}, {3, 10}, {10, 30}, {30, 1000}} {
			require.InDelta(t, share, flaggedShare(scores, threshold, slope, lengths[0], lengths[1]), 0.02, "%v", lengths)
		}
		require.InDelta(t, logistic.Sigmoid(threshold), thresholds[rewardmodel.AggregateMax], 1e-12)
		for _, a := range []rewardmodel.Aggregate{rewardmodel.AggregateMean, rewardmodel.AggregateTopK} {
			above := 0
			for _, s := range scores {
				if a.Violation(s.margins(), rewardmodel.DefaultTopK) > thresholds[a] {
					above++
				}
			}
			require.InDelta(t, share, float64(above)/float64(len(scores)), 0.001, "%s", a)
		}
	}
}

func TestFalseAlarmsWithoutASlope(t *testing.T) {
	falling := make([]float64, 1000) // shorter bags have larger margins
	lengths := make([]int, 1000)
	for i := range falling {
		lengths[i] = 1 + i%50
		falling[i] = float64(i%7) - math.Log(float64(lengths[i]))
	}
	short := slices.Clone(lengths)
	for i := range short {
		short[i] = 1 + i%2
	}
	d, scores := tailBags(199, 1)
	few := make([]int, len(d.Bags))
	margins := make([]float64, len(d.Bags))
	for i, s := range scores {
		few[i], margins[i] = len(s.Instances), s.Bag
	}
	for name, c := range map[string]struct {
		margins []float64
		lengths []int
	}{
		"a falling tail":   {falling, lengths},
		"too few lengths":  {falling, short},
		"too few bags":     {margins, few},
		"a single bag":     {[]float64{3}, []int{7}},
		"the same lengths": {falling, slices.Repeat([]int{9}, 1000)},
	} {
		threshold, slope := fitLengths(c.margins, c.lengths, 0.02)
		require.Zero(t, slope, name)
		above := 0
		for _, m := range c.margins {
			if m > threshold {
				above++
			}
		}
		require.LessOrEqual(t, above, len(c.margins)/50, name)
	}
	steep := slices.Clone(falling)
	for i := range steep {
		steep[i] += 9 * math.Log(float64(lengths[i]))
	}
	_, slope := fitLengths(steep, lengths, 0.02)
	require.InDelta(t, maxFittedSlope, slope, 1e-3)
}

// Without epochs and calibration the rule needs compliant bags only; another rule fits no slope.
func TestFalseAlarmsOfCompliantBags(t *testing.T) {
	data, _ := syntheticBags(300, 4)
	compliant := &Data{Bags: slices.DeleteFunc(slices.Clone(data.Bags), func(b Bag) bool { return b.Violation })}
	cfg := testConfig(DefaultBFGPU())
	cfg.Epochs, cfg.Threshold, cfg.FalseAlarms = 0, FalseAlarms, 0.1
	l := newLinear()
	only, err := Run(t.Context(), l, compliant, cfg)
	require.NoError(t, err)
	require.Zero(t, only.SigmaMicro)
	both, err := Run(t.Context(), l, data, cfg)
	require.NoError(t, err)
	require.Equal(t, only.Thresholds, both.Thresholds, "violations do not count")
	require.True(t, only.Calibration.Identity())

	cfg.Rescale = func(int, float64, float64) error { return nil }
	_, err = Run(t.Context(), l, compliant, cfg)
	require.ErrorIs(t, err, ErrData, "a calibration needs both")
}

// Violations just beyond a threshold that few compliant bags exceed get rewards of the whole range below 0.5.
func TestFalseAlarmsSpreadRewards(t *testing.T) {
	r := Result{FittedOn: &Data{}, Threshold: 3, LengthSlope: 0.5}
	for i := range 100 {
		for _, violation := range []bool{true, false} {
			n := 1 + i%4
			margin := 3 + 0.5*math.Log(float64(n)) + float64(i+1)/100 // at most 1 beyond the threshold of its length
			if !violation {
				margin = -margin
			}
			r.FittedOn.Bags = append(r.FittedOn.Bags, Bag{Violation: violation, Instances: make([][]int32, n)})
			r.Scores = append(r.Scores, Score{Bag: margin})
		}
	}
	m := r.spreadRewards()
	require.NoError(t, m.Validate())
	require.InDelta(t, 0.25, logistic.Sigmoid(m.At(-0.5)), 0.02)
	require.InDelta(t, 0.05, logistic.Sigmoid(m.At(-0.9)), 0.02)
	require.Equal(t, 2.0, m.At(2), "compliant responses keep their rewards")
}
