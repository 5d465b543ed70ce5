package baseline

import (
	"math"
	"testing"

	"assay/rewardmodel/logistic"
	"assay/rewardmodel/train"
)

// TestOneClassMethodsPullNormalUnits checks that a few epochs move normal units toward the center, and that SAD, which
// uses the labels, ranks the bags better than before. The features are too simple for stronger requirements.
func TestOneClassMethodsPullNormalUnits(t *testing.T) {
	for _, m := range []train.Stateful{&SAD{Macro: true}, &SAD{}, &SVDD{}} {
		data, _ := syntheticBags(120, 4)
		l := newEmbedding()
		cfg := featureConfig(m)
		cfg.Epochs = 0
		before, err := train.Run(t.Context(), l, data, cfg)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Epochs = 4
		after, err := train.Run(t.Context(), l, data, cfg)
		if err != nil {
			t.Fatal(err)
		}
		was, is := meanOfCompliant(data, before.Scores), meanOfCompliant(data, after.Scores)
		wasROC, isROC := auroc(data, before.Scores), auroc(data, after.Scores)
		t.Logf("%s: normal margins %.2f before, %.2f after; AUROC %.3f before, %.3f after",
			m.Name(), was, is, wasROC, isROC)
		if !(is < was-0.2) {
			t.Errorf("%s: the normal bags' mean margin went from %v to %v", m.Name(), was, is)
		}
		if _, supervised := m.(*SAD); supervised && isROC < wasROC+0.05 {
			t.Errorf("%s: AUROC on the training bags went from %v to %v", m.Name(), wasROC, isROC)
		}
	}
}

func meanOfCompliant(d *train.Data, scores []train.Score) (mean float64) {
	_, compliant, _, _ := d.Counts()
	for i, b := range d.Bags {
		if !b.Violation {
			mean += scores[i].Bag / float64(compliant)
		}
	}
	return mean
}

// TestMarginsOfDistancesKeepTheirOrder covers distances from 0 to ones that overflow a float32.
func TestMarginsOfDistancesKeepTheirOrder(t *testing.T) {
	s := sphere{center: []float64{1}}
	last := math.Inf(-1)
	for _, h := range []float32{1, 1.01, 2, 30, 1e4, 1e30} {
		m := s.margin([]float32{h}, 2)
		if p := logistic.Sigmoid(m); !(m > last) || !(p > 0) || math.IsInf(m, 0) {
			t.Errorf("margin %v (%v) of a feature at %v, after %v", m, p, h, last)
		}
		last = m
	}
}
