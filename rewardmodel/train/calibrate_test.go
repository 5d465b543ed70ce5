package train

import (
	"math"
	"math/rand/v2"
	"testing"

	"assay/rewardmodel/logistic"
)

// TestPlattRecoversTheCurve samples labels from a known curve and fits it.
func TestPlattRecoversTheCurve(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	margins, labels := make([]float64, 20000), make([]bool, 20000)
	for i := range margins {
		margins[i] = 30 * rng.NormFloat64()
		labels[i] = rng.Float64() < logistic.Sigmoid(0.1*margins[i]-1.5)
	}
	scale, shift, err := platt(margins, labels)
	if err != nil || math.Abs(scale-0.1) > 0.005 || math.Abs(shift+1.5) > 0.1 {
		t.Errorf("scale %v, shift %v, %v; want 0.1 and -1.5", scale, shift, err)
	}
	for i := range margins {
		margins[i] = -margins[i]
	}
	if _, _, err := platt(margins, labels); err == nil {
		t.Error("margins with the wrong sign were calibrated")
	}
}

func TestPlattOfSeparableLabelsIsFinite(t *testing.T) {
	scale, shift, err := platt([]float64{-2, -1, 1, 2}, []bool{false, false, true, true})
	if err != nil || !(scale > 0 && scale < 100) || math.Abs(shift) > 1 {
		t.Errorf("scale %v, shift %v, %v", scale, shift, err)
	}
}

// TestCalibrationMovesTheThreshold checks that the same bags are flagged with and without calibration.
func TestCalibrationMovesTheThreshold(t *testing.T) {
	data, _ := syntheticBags(60, 4)
	l := newLinear()
	cfg := testConfig(DefaultBFGPU())
	cfg.Threshold = PerBag
	if _, err := Run(t.Context(), l, data, cfg); err != nil {
		t.Fatal(err)
	}
	cfg.Epochs = 0
	plain, err := Run(t.Context(), l, data, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var scale, shift float64
	cfg.Rescale = func(_ int, a, b float64) error { scale, shift = a, b; return nil }
	calibrated, err := Run(t.Context(), l, data, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range data.Bags {
		logits := l.pairs(b.Instances)
		for _, z := range logits {
			m := margin(z)
			if (logistic.Sigmoid(m) > plain.Thresholds["max"]) != (logistic.Sigmoid(scale*m+shift) > calibrated.Thresholds["max"]) {
				t.Fatalf("margin %v: the decision changed with the calibration %v, %v", m, scale, shift)
			}
		}
	}
}

func TestLogOddsFollowTheLength(t *testing.T) {
	data := &Data{Bags: []Bag{{Violation: true, Instances: make([][]int32, 1)}, {Instances: make([][]int32, 10)}}}
	r := Result{FittedOn: data, Threshold: 1, LengthSlope: 2, Scores: []Score{{Bag: 4}, {Bag: 4}}}
	logOdds, violation := r.LogOdds()
	if !violation[0] || violation[1] || logOdds[0] != -3 || math.Abs(logOdds[1]-(2*math.Log(10)-3)) > 1e-12 {
		t.Errorf("log-odds %v of violations %v", logOdds, violation)
	}
}
