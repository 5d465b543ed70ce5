package rewardmodel

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/logistic"
)

func TestThresholdOfALength(t *testing.T) {
	a := Aspect{Thresholds: map[Aggregate]float64{AggregateMax: 0.8, AggregateMean: 0.3}, LengthSlope: 0.5}
	for _, c := range []struct {
		kind      Aggregate
		instances int
		want      float64
	}{
		{AggregateMax, 0, 0.8},
		{AggregateMax, 1, 0.8},
		{AggregateMax, 4, 8. / 9}, // odds of 4, times the square root of 4
		{AggregateMax, 100, 40. / 41},
		{AggregateMean, 100, 0.3},
		{AggregateTopK, 100, 0.8},
	} {
		require.InDelta(t, c.want, a.ThresholdOf(c.kind, c.instances), 1e-12, "%s of %d", c.kind, c.instances)
	}
	for _, threshold := range []float64{0, 1} {
		a.Thresholds[AggregateMax] = threshold
		require.Equal(t, threshold, a.ThresholdOf(AggregateMax, 50))
	}
	a = Aspect{Thresholds: map[Aggregate]float64{AggregateMax: 0.1}}
	require.Equal(t, 0.1, a.ThresholdOf(AggregateMax, 50), "exactly the same")
}

// lengthAspects have different slopes; a model of aspectWords scores them.
func lengthAspects() []Aspect {
	return []Aspect{
		{Name: "rude", Weight: 1, Thresholds: map[Aggregate]float64{AggregateMax: 0.5}, LengthSlope: 1},
		{Name: "evasive", Weight: 1, Thresholds: map[Aggregate]float64{AggregateMax: 0.5}},
	}
}

// lengthModel has the given margins of an utterance with "bad" in it for each aspect, and -5 of others.
func lengthModel(margins ...float32) Model {
	bad := words{}.IDs("bad.")[0]
	return modelFunc(func(batch []Sequence) (out []float32, err error) {
		for _, q := range batch {
			for _, m := range margins {
				at := float32(-5)
				for _, id := range q.IDs {
					if id == bad {
						at = m
					}
				}
				out = append(out, at)
			}
		}
		return out, nil
	})
}

// The decision, the deciding aspect and the rewards follow the threshold of the number of utterances.
func TestLengthCorrection(t *testing.T) {
	s := newScorer(t, ScorerConfig{Aspects: lengthAspects()}, lengthModel(1.2, -1))
	for _, c := range []struct {
		name      string
		item      Item
		instances int
		aspect    string // that decides
	}{
		{"one", Item{Response: new("So bad.")}, 1, "rude"},
		{"three", Item{Response: new("So bad. Well. Yes.")}, 3, "rude"},
		{"equal texts count", Item{Response: new("So bad. Yes. Yes. Yes.")}, 4, "rude"},
		{"ten", Item{Response: new("So bad." + strings.Repeat(" Yes.", 9))}, 10, "evasive"},
		{"reasoning does not count", Item{Response: new("<think>Yes. Yes. Yes.</think>So bad.")}, 1, "rude"},
		{"blank instances do not count", Item{Instances: []string{"So bad.", " ", "", "Yes."}}, 2, "rude"},
	} {
		for _, kind := range []Reward{RewardCompliance, RewardLogit} {
			r := score(t, s, Request{Responses: []Item{c.item}, Options: Options{Aspects: true, Reward: kind}})[0]
			rude := r.Aspects["rude"]
			x := math.Log(float64(c.instances)) - 1.2
			want := x
			if kind == RewardCompliance {
				want = logistic.Sigmoid(x)
			}
			require.InDelta(t, logistic.Sigmoid(math.Log(float64(c.instances))), rude.Threshold, 1e-9, c.name)
			require.InDelta(t, want, rude.Reward, 1e-6, c.name)
			require.Equal(t, x >= 0, rude.Compliant, c.name)
			require.InDelta(t, logistic.Sigmoid(1.2), rude.Violation, 1e-6, c.name)
			require.Equal(t, 0.5, r.Aspects["evasive"].Threshold, c.name)
			require.Equal(t, c.aspect, r.Aspect, c.name)
			require.Equal(t, r.Aspects[c.aspect].Threshold, r.Threshold, c.name)
			require.Equal(t, r.Aspects[c.aspect].Reward, r.Reward, c.name)
			require.Equal(t, rude.Threshold, r.Scores[0].Threshold, c.name)
		}
		for _, aggregate := range []Aggregate{AggregateTopK, AggregateNoisyOr, AggregateMean} {
			r := score(t, s, Request{Responses: []Item{c.item}, Options: Options{Aspects: true, Aggregate: aggregate}})[0]
			require.Equal(t, 0.5, r.Aspects["rude"].Threshold, "%s, %s", c.name, aggregate)
		}
	}
}

// A prefix has the threshold of its own length, so its reward is that of a response which ends there.
func TestPrefixesHaveTheThresholdOfTheirLength(t *testing.T) {
	s := newScorer(t, ScorerConfig{Aspects: lengthAspects()}, lengthModel(1.2, -1))
	utterances := []string{"Well.", "Bad.", "Yes.", "No.", "Ok."}
	text := strings.Join(utterances, " ")
	var offsets [][2]int
	for i := range utterances {
		end := len(strings.Join(utterances[:i+1], " "))
		offsets = append(offsets, [2]int{end - len(utterances[i]), end})
	}
	req := Request{Responses: []Item{{Response: &text, TokenOffsets: offsets}}, Options: Options{Dense: DenseInstance}}
	sum := 0.0
	for i, x := range score(t, s, req)[0].TokenRewards {
		sum += x
		alone := score(t, s, responses(text[:offsets[i][1]]))[0]
		require.InDelta(t, alone.Reward, sum, 1e-12, "after %d", i+1)
	}
}

// An empty response has the threshold T.
func TestEmptyResponseHasNoLengthCorrection(t *testing.T) {
	s := newScorer(t, ScorerConfig{Aspects: lengthAspects(), EmptyReward: 0.5}, lengthModel(1, 1))
	r := score(t, s, responses(" "))[0]
	require.True(t, r.Empty && r.Compliant)
	require.Equal(t, []float64{0.5, 0.5, 0.5}, []float64{r.Reward, r.Violation, r.Threshold})
}

// Without a slope, rewards and thresholds do not depend on the number of utterances, to the last bit.
func TestWithoutASlopeLengthChangesNothing(t *testing.T) {
	for _, calibration := range calibrations() {
		for _, threshold := range []float64{0, 0.1, 0.5, 0.807, 1} {
			on := scale{threshold: threshold, calibration: calibration}
			for _, m := range []float32{-70, -3, 0, 0.2, 1.4, 50} {
				short, long := aggregate(AggregateMax, 0, []float32{m}), aggregate(AggregateMax, 0, []float32{m, m, m, -80, m})
				require.Equal(t, threshold, on.thresholdOf(long))
				for _, kind := range []Reward{RewardCompliance, RewardLogit, RewardRaw} {
					require.Equal(t, on.reward(kind, short), on.reward(kind, long))
				}
			}
		}
	}
	s := newScorer(t, ScorerConfig{Aspects: oneAspect(map[Aggregate]float64{AggregateMax: 0.6}, nil)}, wordMargin(map[string]float32{"bad.": 3}))
	r := score(t, s, responses("So bad. Yes. No."))[0]
	require.Equal(t, []float64{0.6, logistic.Sigmoid(logistic.Logit(0.6) - 3)}, []float64{r.Threshold, r.Reward})
}
