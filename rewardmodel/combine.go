package rewardmodel

import (
	"fmt"
	"maps"
	"slices"

	"assay/rewardmodel/logistic"
)

// combiner turns the scores of a bag, one for each aspect of the model, into one
// reward. See Combination.
type combiner struct {
	combination Combination
	scales      []scale
	weights     []float64
}

// combiner returns how a request combines the aspects, or an *InputError for a
// weight that does not fit the model.
func (s *Scorer) combiner(o Options) (combiner, error) {
	c := combiner{combination: o.Combination}
	if c.combination == "" {
		c.combination = s.config.Combination
	}
	counted := false
	for _, a := range s.config.Aspects {
		weight, given := o.Weights[a.Name]
		if !given {
			weight = a.Weight
		}
		c.scales = append(c.scales, scale{threshold: a.Threshold(o.Aggregate), calibration: a.Calibration[o.Aggregate]})
		c.weights = append(c.weights, weight)
		counted = counted || weight > 0
	}
	for _, name := range slices.Sorted(maps.Keys(o.Weights)) {
		if !slices.ContainsFunc(s.config.Aspects, func(a Aspect) bool { return a.Name == name }) {
			return c, Invalidf("options.weights", "unknown aspect %s; use those of the model: %s", Quote(name), s.aspectNames())
		}
	}
	if !counted {
		return c, Invalidf("options.weights", "all weights are 0; give at least one aspect a positive weight")
	}
	return c, nil
}

func (s *Scorer) aspectNames() string {
	names := make([]string, len(s.config.Aspects))
	for i, a := range s.config.Aspects {
		names[i] = fmt.Sprintf("%q", a.Name)
	}
	return join(names)
}

// deciding returns the aspect that the violation, the threshold and the witness of
// a response are taken from: the one with the least compliance log-odds of those that
// count, but for CombineLexicographic the first that is violated.
func (c combiner) deciding(scores []bagScore) int {
	least, lowest := -1, 0.0
	for i, s := range scores {
		if c.weights[i] == 0 {
			continue
		}
		x := c.scales[i].complianceLogit(s)
		if c.combination == CombineLexicographic && x < 0 {
			return i
		}
		if least < 0 || x < lowest {
			least, lowest = i, x
		}
	}
	return least
}

// reward is the reward of a bag on the requested scale.
func (c combiner) reward(kind Reward, scores []bagScore) float64 {
	decides := c.deciding(scores)
	switch {
	case c.combination == CombineSum && len(scores) > 1:
		return c.weightedMean(kind, scores)
	case c.combination == CombineLexicographic && kind != RewardRaw && c.scales[decides].complianceLogit(scores[decides]) < 0:
		compliance := c.rank(decides, c.scales[decides].complianceLogit(scores[decides]))
		if kind == RewardLogit {
			return clampLogit(logistic.Logit(compliance))
		}
		return compliance
	}
	return c.scales[decides].reward(kind, scores[decides])
}

// weightedMean is the reward of CombineSum; for RewardRaw it is the weighted mean of
// 1 - violation.
func (c combiner) weightedMean(kind Reward, scores []bagScore) float64 {
	var sum, total float64
	for i, s := range scores {
		x := 1 - s.violation
		if kind != RewardRaw {
			x = clampLogit(c.scales[i].complianceLogit(s))
		}
		sum, total = sum+c.weights[i]*x, total+c.weights[i]
	}
	if kind == RewardCompliance {
		return logistic.Sigmoid(sum / total)
	}
	return sum / total
}

// rank is the compliance of a response whose first violated aspect is the given one,
// with a negative compliance log-odds.
func (c combiner) rank(violated int, x float64) float64 {
	counted, before := 0, 0
	for i, w := range c.weights {
		if w == 0 {
			continue
		}
		if counted++; i < violated {
			before++
		}
	}
	return (float64(before) + 2*logistic.Sigmoid(x)) / float64(2*counted)
}

// prefixRewards puts the scores of the prefixes of a bag, one list for each aspect,
// on a scale. The last one is reward, that of the whole bag, to the last bit, and so
// are those before it from which nothing changed.
func (c combiner) prefixRewards(kind Reward, scores [][]bagScore, reward float64) []float64 {
	out := make([]float64, len(scores[0]))
	at := make([]bagScore, len(scores))
	for i := range out {
		for a := range scores {
			at[a] = scores[a][i]
		}
		out[i] = c.reward(kind, at)
	}
	if len(out) == 0 {
		return out
	}
	whole := out[len(out)-1]
	for i := len(out) - 1; i >= 0 && out[i] == whole; i-- {
		out[i] = reward
	}
	return out
}

// clean is the reward of a bag whose violation is 0 in every aspect.
func (c combiner) clean(kind Reward) float64 {
	scores := make([]bagScore, len(c.scales))
	for i, s := range c.scales {
		scores[i] = s.emptyScore(1)
	}
	return c.reward(kind, scores)
}
