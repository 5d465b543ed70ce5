package rewardmodel

import (
	"math"
	"math/rand/v2"
	"testing"

	"assay/rewardmodel/calibration"
	"assay/rewardmodel/logistic"
)

func TestAggregates(t *testing.T) {
	at := func(v float64) float32 { return float32(logistic.Logit(v)) }
	margins := []float32{at(0.1), at(0.9), at(0.5), at(0.2)}
	for kind, want := range map[Aggregate]float64{
		AggregateMax:     0.9,
		AggregateTopK:    (0.9 + 0.5) / 2,
		AggregateNoisyOr: 1 - 0.9*0.1*0.5*0.8,
		AggregateMean:    1.7 / 4,
	} {
		got := aggregate(kind, 2, margins)
		if math.Abs(got.violation-want) > 1e-6 {
			t.Errorf("%s: got %v, want %v", kind, got.violation, want)
		}
		if math.Abs(got.margin-logistic.Logit(want)) > 1e-5 {
			t.Errorf("%s: got margin %v, want %v", kind, got.margin, logistic.Logit(want))
		}
	}
	if few := aggregate(AggregateTopK, 9, margins); math.Abs(few.violation-1.7/4) > 1e-6 {
		t.Errorf("top 9 of 4: got %v", few.violation)
	}
}

// The margin of an aggregate is precise where the violation is 0 or 1.
func TestAggregatesKeepPrecision(t *testing.T) {
	for _, kind := range Aggregates() {
		low := aggregate(kind, 3, []float32{-60, -60, -60})
		if want := map[Aggregate]float64{AggregateNoisyOr: -60 + math.Log(3)}[kind]; math.Abs(low.margin-want) > 1e-9 && math.Abs(low.margin+60) > 1e-9 {
			t.Errorf("%s: margin %v of three margins of -60", kind, low.margin)
		}
		high := aggregate(kind, 3, []float32{60, 60, 60})
		if want := map[Aggregate]float64{AggregateNoisyOr: 180}[kind]; math.Abs(high.margin-want) > 1e-9 && math.Abs(high.margin-60) > 1e-9 {
			t.Errorf("%s: margin %v of three margins of 60", kind, high.margin)
		}
	}
}

func TestSingleInstanceIsTheBag(t *testing.T) {
	for _, kind := range Aggregates() {
		if got := aggregate(kind, 3, []float32{1.25}); got != (bagScore{logistic.Sigmoid(1.25), 1.25, 1}) {
			t.Errorf("%s: got %+v", kind, got)
		}
	}
}

// calibrations returns none, one that spreads the rewards and one that compresses them.
func calibrations() []calibration.Map {
	return []calibration.Map{
		{},
		{From: []float64{-3, -1, 0, 0.25, 2}, To: []float64{-20, -1.5, 0, 1.25, 5}},
		{From: []float64{-3, 0, 9}, To: []float64{-0.3, 0, 1}},
	}
}

// The documented properties of a reward, for any margins and threshold.
func TestRewardProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		margins := make([]float32, 1+random.IntN(5))
		for i := range margins {
			margins[i] = float32(random.NormFloat64() * math.Pow(10, random.Float64()*4-2))
		}
		kind := Aggregates()[random.IntN(4)]
		on := scale{
			[]float64{random.Float64(), 0, 1, 1e-12, 1 - 1e-12, 0.5}[random.IntN(6)],
			[]float64{0, 0.7, MaxLengthSlope}[random.IntN(3)],
			calibrations()[random.IntN(3)],
		}
		score := aggregate(kind, 3, margins)
		checkReward(t, score, on)

		worse := append([]float32(nil), margins...)
		worse[random.IntN(len(worse))] += float32(random.ExpFloat64())
		checkMonotone(t, kind, score, aggregate(kind, 3, worse), on)
	}
}

func checkReward(t *testing.T, s bagScore, on scale) {
	t.Helper()
	c, l, raw := on.reward(RewardCompliance, s), on.reward(RewardLogit, s), on.reward(RewardRaw, s)
	for name, value := range map[string]float64{"violation": s.violation, "compliance": c, "raw": raw} {
		if !(value >= 0 && value <= 1) {
			t.Errorf("%s is %v at %+v, %+v", name, value, s, on)
		}
	}
	if !(l >= -maxLogit && l <= maxLogit) {
		t.Errorf("logit is %v at %+v, %+v", l, s, on)
	}
	if compliant := s.violation <= on.thresholdOf(s); compliant != (c >= 0.5) || compliant != (l >= 0) {
		t.Errorf("compliant is %v but compliance %v and logit %v, at %+v, %+v", compliant, c, l, s, on)
	}
}

func checkMonotone(t *testing.T, kind Aggregate, low, high bagScore, on scale) {
	t.Helper()
	const rounding = 1e-12 // of sums in another order
	if high.violation < low.violation-rounding {
		t.Errorf("%s: violation fell from %v to %v when a margin rose", kind, low, high)
	}
	for _, scale := range []Reward{RewardCompliance, RewardLogit, RewardRaw} {
		if a, b := on.reward(scale, low), on.reward(scale, high); b > a+rounding*(1+math.Abs(a)) {
			t.Errorf("%s, %s: reward rose from %v to %v when a margin rose, %+v", kind, scale, a, b, on)
		}
	}
}

// A threshold is the violation of some instance, as training finds it.
func TestHalfExactlyAtThreshold(t *testing.T) {
	for m := float32(-40); m <= 40; m += 0.37 {
		threshold := Violation(m)
		on := scale{threshold: threshold, calibration: calibrations()[int(m+40)%3]}
		for _, kind := range Aggregates() {
			s := aggregate(kind, 3, []float32{m})
			if c := on.reward(RewardCompliance, s); c != 0.5 {
				t.Errorf("%s: compliance %v at T = %v", kind, c, threshold)
			}
			if l := on.reward(RewardLogit, s); l != 0 {
				t.Errorf("%s: logit %v at T = %v", kind, l, threshold)
			}
		}
		if math.Abs(float64(m)) > 20 {
			continue // the neighbors have the same violation
		}
		over := aggregate(AggregateMax, 0, []float32{math.Nextafter32(m, 100)})
		under := aggregate(AggregateMax, 0, []float32{math.Nextafter32(m, -100)})
		if on.reward(RewardCompliance, over) >= 0.5 || on.reward(RewardCompliance, under) < 0.5 {
			t.Errorf("the neighbors of margin %v are on the wrong side", m)
		}
	}
}

func TestEmptyReward(t *testing.T) {
	for _, threshold := range []float64{0, 1e-9, 0.3, 0.5, 0.97, 1} {
		for i, compliance := range []float64{0, 1e-6, 0.25, 0.5, 0.75, 1} {
			on := scale{threshold: threshold, calibration: calibrations()[i%3]}
			if c := on.emptyReward(RewardCompliance, compliance); c != compliance {
				t.Errorf("compliance %v became %v", compliance, c)
			}
			want := min(max(logistic.Logit(compliance), -maxLogit), maxLogit)
			if l := on.emptyReward(RewardLogit, compliance); l != want {
				t.Errorf("logit of compliance %v is %v, want %v", compliance, l, want)
			}
			s := on.emptyScore(compliance)
			if !(s.violation >= 0 && s.violation <= 1) || on.emptyReward(RewardRaw, compliance) != 1-s.violation {
				t.Errorf("violation %v of compliance %v, T %v", s.violation, compliance, threshold)
			}
			if threshold > 0 && threshold < 1 {
				if back := on.reward(RewardCompliance, s); math.Abs(back-compliance) > 1e-9 {
					t.Errorf("violation %v means compliance %v, not %v, T %v", s.violation, back, compliance, threshold)
				}
			}
		}
	}
}
