package rewardmodel

import (
	"math"
	"strings"
	"testing"

	"assay/rewardmodel/calibration"
)

// A calibration changes only the rewards compliance and logit.
func TestScorerCalibrates(t *testing.T) {
	curve := calibration.Map{From: []float64{-2, 0, 2}, To: []float64{-6, 0, 1}}
	results := func(cal Calibration, kind Reward, kinds Aggregate) []Result {
		s := newScorer(t, ScorerConfig{Aspects: oneAspect(map[Aggregate]float64{AggregateMax: 0.6}, cal)}, modelFunc(hashMargins))
		req := responses("Take the train at noon. It is quick.", "You are a fool.", "Yes.", "Never mind.", " ")
		for i := range req.Responses {
			req.Responses[i].ID = string(rune('a' + i))
		}
		req.Options = Options{Reward: kind, Aggregate: kinds}
		return score(t, s, req)
	}
	own := Calibration{AggregateMax: curve}
	for i, plain := range results(nil, RewardLogit, AggregateMax) {
		mapped := results(own, RewardLogit, AggregateMax)[i]
		if want := curve.At(plain.Reward); !plain.Empty && math.Abs(mapped.Reward-want) > 1e-12 {
			t.Errorf("logit %v became %v, want %v", plain.Reward, mapped.Reward, want)
		}
		if plain.Empty && mapped.Reward != plain.Reward {
			t.Errorf("the reward of an empty response became %v", mapped.Reward)
		}
		if mapped.Violation != plain.Violation || mapped.Compliant != plain.Compliant || mapped.Threshold != plain.Threshold {
			t.Errorf("got %+v, want only the reward to differ from %+v", mapped, plain)
		}
	}
	for kind, aggregate := range map[Reward]Aggregate{RewardRaw: AggregateMax, RewardLogit: AggregateMean} {
		for i, plain := range results(nil, kind, aggregate) {
			if mapped := results(own, kind, aggregate)[i]; mapped.Reward != plain.Reward {
				t.Errorf("%s of %s became %v, was %v", kind, aggregate, mapped.Reward, plain.Reward)
			}
		}
	}
}

func TestCalibrationRejects(t *testing.T) {
	for want, c := range map[string]Calibration{
		"average: unknown aggregate":    {"average": {}},
		"mean: bad calibration: knot 1": {AggregateMean: {From: []float64{0, 1}, To: []float64{0, -1}}},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		_, err := NewScorer(ScorerConfig{Version: "v1", Aspects: oneAspect(nil, c)}, modelFunc(hashMargins), words{}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewScorer: got %v, want %q", err, want)
		}
	}
	if err := (Calibration{AggregateMax: {}}).Validate(); err != nil {
		t.Error(err)
	}
}
