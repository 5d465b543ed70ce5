package rewardmodel

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/logistic"
)

// aspectMargin is the margin of an aspect in the models of these tests.
func aspectMargin(ids []int32, aspect int) float32 {
	return hashMargin(append(slices.Clone(ids), int32(aspect)))
}

// aspectModel is a model with n aspects.
func aspectModel(n int) modelFunc {
	return func(batch []Sequence) ([]float32, error) {
		var margins []float32
		for _, q := range batch {
			for a := range n {
				margins = append(margins, aspectMargin(q.IDs, a))
			}
		}
		return margins, nil
	}
}

func threeAspects() []Aspect {
	return []Aspect{
		{Name: "toxicity", Weight: 2, Thresholds: map[Aggregate]float64{AggregateMax: 0.6}},
		{Name: "refusal", Weight: 0.5, Thresholds: map[Aggregate]float64{AggregateMax: 0.9, AggregateMean: 0.3}},
		{Name: "style", Weight: 0},
	}
}

// The plain fields are those of one aspect, and each aspect alone is scored as by a
// model that has only that one.
func TestAspectsAreScoredIndependently(t *testing.T) {
	s := newScorer(t, ScorerConfig{Aspects: threeAspects(), CacheBytes: 1 << 16}, aspectModel(3))
	req := responses("You are kind. You are not. Go away.", "Yes.", " ", "Take the train. It leaves at noon!")
	req.Options.Aspects = true
	for _, aggregate := range Aggregates() {
		for _, reward := range []Reward{RewardCompliance, RewardLogit, RewardRaw} {
			req.Options.Aggregate, req.Options.Reward = aggregate, reward
			results := score(t, s, req)
			for a, aspect := range threeAspects() {
				alone := newScorer(t, ScorerConfig{Aspects: []Aspect{{Name: "only", Weight: 1, Thresholds: aspect.Thresholds}}},
					modelFunc(func(batch []Sequence) ([]float32, error) {
						margins := make([]float32, len(batch))
						for i, q := range batch {
							margins[i] = aspectMargin(q.IDs, a)
						}
						return margins, nil
					}))
				for i, want := range score(t, alone, req) {
					require.Equal(t, want.Aspects["only"], results[i].Aspects[aspect.Name], "%s %s %d", aggregate, aspect.Name, i)
					require.Empty(t, want.Aspect)
					require.Equal(t, want.Aspects["only"], AspectResult{want.Reward, want.Compliant, want.Violation, want.Threshold, want.Witness})
				}
			}
			for _, r := range results {
				plain := r.Aspects[r.Aspect]
				require.NotEqual(t, "style", r.Aspect, "its weight is 0")
				require.Equal(t, plain, AspectResult{plain.Reward, r.Compliant, r.Violation, r.Threshold, r.Witness})
				if r.Witness != nil {
					require.Equal(t, r.Witness.Violation, r.Instances[r.Witness.Index].Violation)
				}
			}
		}
	}
}

// The rewards of each combination are those of its definition.
func TestCombinations(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n := 1 + random.IntN(4)
		c := combiner{combination: Combinations()[random.IntN(3)]}
		scores, x := make([]bagScore, n), make([]float64, n)
		for a := range scores {
			threshold := []float64{0.2, 0.5, 0.9}[random.IntN(3)]
			c.scales = append(c.scales, scale{threshold: threshold})
			c.weights = append(c.weights, []float64{0, 0.5, 1, 3}[random.IntN(4)])
			m := 30 * (random.Float64() - 0.5)
			scores[a] = bagScore{violation: logistic.Sigmoid(m), margin: m}
			x[a] = logistic.Logit(threshold) - m
		}
		c.weights[random.IntN(n)] = 1
		least, first, weighted, total := math.Inf(1), -1, 0.0, 0.0
		counted, before := 0, 0
		for a := range x {
			if c.weights[a] == 0 {
				continue
			}
			if first < 0 && x[a] < 0 {
				first, before = a, counted
			}
			counted++
			least = min(least, x[a])
			weighted, total = weighted+c.weights[a]*min(max(x[a], -20), 20), total+c.weights[a]
		}
		want := logistic.Sigmoid(least)
		switch {
		case c.combination == CombineSum:
			want = logistic.Sigmoid(weighted / total)
		case c.combination == CombineLexicographic && first >= 0:
			want = (float64(before) + 2*logistic.Sigmoid(x[first])) / float64(2*counted)
		}
		got := c.reward(RewardCompliance, scores)
		require.InDelta(t, want, got, 1e-9, "%+v %v", c, x)
		require.InDelta(t, want, c.combination.Compliance(c.weights, x), 1e-9, "%+v %v", c, x)
		if c.combination != CombineSum {
			require.Equal(t, least >= 0, got >= 0.5)
		}
		logit := c.reward(RewardLogit, scores)
		require.InDelta(t, min(max(logistic.Logit(got), -20), 20), logit, 1e-6)
		raw := c.reward(RewardRaw, scores)
		require.True(t, raw >= 0 && raw <= 1)
	}
}

// Weights are relative, however large they are.
func TestRewardsOfLargeWeightsAreFinite(t *testing.T) {
	scores := []bagScore{{violation: 0.1, margin: logistic.Logit(0.1)}, {violation: 0.7, margin: logistic.Logit(0.7)}}
	for _, kind := range []Reward{RewardCompliance, RewardLogit, RewardRaw} {
		var rewards []float64
		for _, unit := range []float64{1, math.MaxFloat64, 1e-300} {
			c := combiner{CombineSum, []scale{{threshold: 0.5}, {threshold: 0.6}}, []float64{unit, unit}}
			rewards = append(rewards, c.reward(kind, scores))
		}
		require.Equal(t, []float64{rewards[0], rewards[0], rewards[0]}, rewards)
	}
}

// An empty response has the configured compliance in the aspects that count.
func TestEmptyResponseWithAspects(t *testing.T) {
	aspects := threeAspects()
	aspects[0].Weight, aspects[2].Weight = 0, 1.5
	s := newScorer(t, ScorerConfig{Aspects: aspects, EmptyReward: 0.3}, aspectModel(3))
	req := responses(" ")
	for _, combination := range Combinations() {
		req.Options = Options{Aspects: true, Combination: combination}
		r := score(t, s, req)[0]
		require.Equal(t, "refusal", r.Aspect, "toxicity does not count")
		require.Equal(t, 0.3, r.Reward)
		require.Equal(t, r.Aspects["refusal"].Violation, r.Violation)
		req.Options.Reward = RewardRaw
		r = score(t, s, req)[0]
		want := 1 - r.Violation
		if combination == CombineSum {
			want = (0.5*(1-r.Violation) + 1.5*(1-r.Aspects["style"].Violation)) / 2
		}
		require.InDelta(t, want, r.Reward, 1e-12, combination)
	}
}

// A request can choose the combination and the weights.
func TestCombinationOfARequest(t *testing.T) {
	s := newScorer(t, ScorerConfig{Aspects: threeAspects(), Combination: CombineSum}, aspectModel(3))
	req := responses("You are kind. You are not.")
	req.Options.Aspects = true
	of := func(o Options) Result {
		o.Aspects = true
		req.Options = o
		return score(t, s, req)[0]
	}
	all := of(Options{}).Aspects
	require.Len(t, all, 3)
	least := min(all["toxicity"].Reward, all["refusal"].Reward)
	require.Equal(t, least, of(Options{Combination: CombineMin}).Reward)
	for name, a := range all {
		weights := map[string]float64{"toxicity": 0, "refusal": 0, name: 1}
		for _, c := range Combinations() {
			r := of(Options{Weights: weights, Combination: c})
			if c != CombineLexicographic || a.Compliant {
				require.InDelta(t, a.Reward, r.Reward, 1e-12)
			}
			require.Equal(t, name, r.Aspect)
		}
	}
	for field, o := range map[string]Options{
		`options.weights: unknown aspect "rude"; use those of the model: "toxicity", "refusal", "style"`: {Weights: map[string]float64{"rude": 1}},
		"options.weights: all weights are 0":                {Weights: map[string]float64{"toxicity": 0, "refusal": 0}},
		`options.weights: the weight of "toxicity" is -1`:   {Weights: map[string]float64{"toxicity": -1}},
		`options.weights: the weight of "toxicity" is +Inf`: {Weights: map[string]float64{"toxicity": math.Inf(1)}},
		"options.combination: unknown value":                {Combination: "max"},
	} {
		req.Options = o
		_, err := s.Score(t.Context(), req)
		var input *InputError
		require.True(t, errors.As(err, &input), field)
		require.Contains(t, input.Field+": "+input.Message, field)
	}
}

// Instances are cached, shared and scored in windows with the margins of all aspects.
func TestAspectsOfCachedAndLongInstances(t *testing.T) {
	text := "Short. " + strings.Repeat("word by word it grows and ", 20) + "ends. Short."
	var want []Result
	for _, bytes := range []int64{0, 1 << 16} {
		s := newScorer(t, ScorerConfig{Aspects: threeAspects(), CacheBytes: bytes, MaxLength: 12}, aspectModel(3))
		req := Request{Responses: []Item{{ID: "a", Instances: []string{"Short.", text}}, {ID: "b", Response: &text}}, Options: Options{Aspects: true}}
		for range 2 {
			got := score(t, s, req)
			if want == nil {
				want = got
			}
			require.Equal(t, want, got)
		}
	}
	_, err := newScorer(t, ScorerConfig{Aspects: threeAspects()}, aspectModel(2)).Score(t.Context(), responses("a b"))
	require.ErrorContains(t, err, "it returned 2 margins for 1 sequences and 3 aspects")
}

// The rewards of tokens sum up to the combined reward.
func TestTokenRewardsOfAspectsSumUp(t *testing.T) {
	text := "You are kind. You are not. Go away, please. Thank you!"
	tokens := make([][2]int, len(text))
	for i := range tokens {
		tokens[i] = [2]int{i, i + 1}
	}
	s := newScorer(t, ScorerConfig{Aspects: threeAspects()}, aspectModel(3))
	for _, c := range Combinations() {
		for _, dense := range []Dense{DenseLast, DenseInstance, DenseWitness, DenseShaped} {
			req := Request{Responses: []Item{{Response: &text, TokenOffsets: tokens}}, Options: Options{Combination: c, Dense: dense}}
			r := score(t, s, req)[0]
			sum := 0.0
			for _, x := range r.TokenRewards {
				sum += x
			}
			require.InDelta(t, r.Reward, sum, 1e-9, "%s %s", c, dense)
		}
	}
}

func TestNewScorerRejectsAspects(t *testing.T) {
	for want, aspects := range map[string][]Aspect{
		`aspects[1]: name: "" is not the name`:    {{Name: "a", Weight: 1}, {Weight: 1}},
		`aspects[1]: there are two with the name`: {{Name: "a", Weight: 1}, {Name: "a", Weight: 1}},
		"aspects[0]: weight is -1":                {{Name: "a", Weight: -1}},
		"aspects: all weights are 0":              {{Name: "a"}},
		"aspects: there are 17":                   manyAspects(17),
		"aspects[0]: length slope is -0.1":        {{Name: "a", Weight: 1, LengthSlope: -0.1}},
		"aspects[0]: length slope is 10.5":        {{Name: "a", Weight: 1, LengthSlope: 10.5}},
		"aspects[0]: length slope is NaN":         {{Name: "a", Weight: 1, LengthSlope: math.NaN()}},
	} {
		_, err := NewScorer(ScorerConfig{Version: "v", Aspects: aspects}, modelFunc(hashMargins), words{}, nil)
		require.ErrorContains(t, err, want)
	}
}

func manyAspects(n int) (out []Aspect) {
	for i := range n {
		out = append(out, Aspect{Name: fmt.Sprint("a", i), Weight: 1})
	}
	return out
}
