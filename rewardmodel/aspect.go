package rewardmodel

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"

	"assay/rewardmodel/logistic"
)

// DefaultAspect is the name of the only aspect of a model that names none.
const DefaultAspect = "default"

// MaxAspects is the maximum number of aspects of a model.
const MaxAspects = 16

// aspectName is the form of the name of an aspect.
var aspectName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// CheckAspect returns an error with the fix for a name that no aspect can have.
func CheckAspect(name string) error {
	if aspectName.MatchString(name) {
		return nil
	}
	return fmt.Errorf("%s is not the name of an aspect; use 1 to 64 of a-z, 0-9, _ and -, starting with a letter or digit", Quote(name))
}

// Aspect is one rule that a model scores, with its own violation, threshold and
// calibration. Most models have one.
type Aspect struct {
	Name string // unique in the model
	// Weight is the aspect's weight in the reward of a response, at least 0. An
	// aspect with weight 0 is reported, but does not count.
	Weight float64
	// Thresholds holds the adjusted decision threshold T, in [0,1], of each
	// aggregate. Without one for max it is 0.5; the others fall back to max's.
	Thresholds map[Aggregate]float64
	// LengthSlope corrects the threshold of max for the number of scored instances,
	// since the maximum of many is large more often than that of few; in
	// [0,MaxLengthSlope], 0: no correction. See ThresholdOf.
	LengthSlope float64
	// Calibration maps the rewards of this aspect to the scale of an earlier
	// model. An aggregate without a map keeps its own scale.
	Calibration Calibration
}

// MaxLengthSlope bounds Aspect.LengthSlope.
const MaxLengthSlope = 10

// Threshold is the adjusted decision threshold T of an aggregate, of a bag with one
// scored instance.
func (a Aspect) Threshold(kind Aggregate) float64 {
	for _, name := range []Aggregate{kind, AggregateMax} {
		if t, ok := a.Thresholds[name]; ok {
			return t
		}
	}
	return 0.5
}

// ThresholdOf is the decision threshold of an aggregate for a bag with the given
// number of scored instances: sigmoid(logit(T) + LengthShift).
func (a Aspect) ThresholdOf(kind Aggregate, instances int) float64 {
	return shifted(a.Threshold(kind), a.LengthShift(kind, instances))
}

// LengthShift is by how much the log-odds of the threshold of an aggregate grow with
// the number of scored instances: LengthSlope * ln(instances) for max, otherwise 0.
func (a Aspect) LengthShift(kind Aggregate, instances int) float64 {
	if kind != AggregateMax {
		return 0
	}
	return lengthShift(a.LengthSlope, instances)
}

func (a Aspect) validate() error {
	if err := CheckAspect(a.Name); err != nil {
		return fmt.Errorf("name: %w", err)
	}
	if !validWeight(a.Weight) {
		return fmt.Errorf("weight is %v; use 0 or a positive number", a.Weight)
	}
	for _, aggregate := range slices.Sorted(maps.Keys(a.Thresholds)) {
		if !slices.Contains(Aggregates(), aggregate) {
			return fmt.Errorf("thresholds[%s]: unknown aggregate; use one of %s", aggregate, join(Aggregates()))
		}
		if t := a.Thresholds[aggregate]; !(t >= 0 && t <= 1) {
			return fmt.Errorf("thresholds[%s] is %v; it must be in [0,1]", aggregate, t)
		}
	}
	if !(a.LengthSlope >= 0 && a.LengthSlope <= MaxLengthSlope) {
		return fmt.Errorf("length slope is %v; it must be in [0,%d]", a.LengthSlope, MaxLengthSlope)
	}
	if err := a.Calibration.Validate(); err != nil {
		return fmt.Errorf("calibration: %w", err)
	}
	return nil
}

func validWeight(w float64) bool { return w >= 0 && !math.IsInf(w, 1) }

// Combination names how the aspects of a model become one reward. Aspects with
// weight 0 do not count. Of a model with one aspect, every combination is the reward
// of that aspect.
type Combination string

// The combinations of aspects. With x the compliance log-odds of an aspect (0 at its
// threshold, positive when it complies) and w its weight:
const (
	// CombineMin is the reward of the aspect with the least x, the default. It is at
	// least 0.5 if and only if the response complies with every aspect.
	CombineMin Combination = "min"
	// CombineSum is the reward of sum(w x) / sum(w), each x within [-20,20]: a
	// violation of one aspect can be compensated by others.
	CombineSum Combination = "sum"
	// CombineLexicographic ranks the aspects in the order of the model: a response
	// that violates an earlier one gets less than any response that violates only
	// later ones. Of n aspects, the i-th (from 0) being the first that is violated, the
	// compliance is (i + 2 sigmoid(x_i)) / 2n; without a violation it is that of
	// CombineMin.
	CombineLexicographic Combination = "lexicographic"
)

// Combinations lists the combinations, the default first.
func Combinations() []Combination {
	return []Combination{CombineMin, CombineSum, CombineLexicographic}
}

// Compliance combines the compliance log-odds of the aspects of a response, in the order
// of the model, into its reward in [0,1]. At least one of the weights is positive.
func (c Combination) Compliance(weights, logOdds []float64) float64 {
	on := combiner{combination: c, weights: weights}
	scores := make([]bagScore, len(logOdds))
	for a, x := range logOdds {
		on.scales = append(on.scales, scale{threshold: 0.5})
		scores[a] = bagScore{violation: logistic.Sigmoid(-x), margin: -x}
	}
	return on.reward(RewardCompliance, scores)
}

// validateAspects checks the aspects of a model.
func validateAspects(aspects []Aspect) error {
	if len(aspects) > MaxAspects {
		return fmt.Errorf("aspects: there are %d; a model has at most %d", len(aspects), MaxAspects)
	}
	names, counted := map[string]bool{}, false
	for i, a := range aspects {
		if err := a.validate(); err != nil {
			return fmt.Errorf("aspects[%d]: %w", i, err)
		}
		if names[a.Name] {
			return fmt.Errorf("aspects[%d]: there are two with the name %q", i, a.Name)
		}
		names[a.Name] = true
		counted = counted || a.Weight > 0
	}
	if !counted {
		return errors.New("aspects: all weights are 0; give at least one aspect a positive weight")
	}
	return nil
}

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
		on := scale{threshold: a.Threshold(o.Aggregate), calibration: a.Calibration[o.Aggregate]}
		if o.Aggregate == AggregateMax {
			on.lengthSlope = a.LengthSlope
		}
		c.scales = append(c.scales, on)
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
	largest := slices.Max(c.weights) // by which they are divided, since their sum may overflow
	for i, s := range scores {
		x := 1 - s.violation
		if kind != RewardRaw {
			x = clampLogit(c.scales[i].complianceLogit(s))
		}
		w := c.weights[i] / largest
		sum, total = sum+w*x, total+w
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
func (c combiner) clean(kind Reward) float64 { return c.reward(kind, c.emptyScores(1)) }

// empty returns the reward of a response without text, which has the given compliance
// in every aspect, and the aspect that decides: the first that counts.
func (c combiner) empty(kind Reward, compliance float64) (decides int, reward float64) {
	decides = slices.IndexFunc(c.weights, func(w float64) bool { return w > 0 })
	if kind == RewardRaw && c.combination == CombineSum {
		return decides, c.weightedMean(kind, c.emptyScores(compliance))
	}
	return decides, c.scales[decides].emptyReward(kind, compliance)
}

// emptyScores are the scores of the given compliance, one for each aspect.
func (c combiner) emptyScores(compliance float64) []bagScore {
	scores := make([]bagScore, len(c.scales))
	for i, s := range c.scales {
		scores[i] = s.emptyScore(compliance)
	}
	return scores
}
