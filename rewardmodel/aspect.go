package rewardmodel

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
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
	// Calibration maps the rewards of this aspect to the scale of an earlier
	// model. An aggregate without a map keeps its own scale.
	Calibration Calibration
}

// Threshold is the adjusted decision threshold T of an aggregate.
func (a Aspect) Threshold(kind Aggregate) float64 {
	for _, name := range []Aggregate{kind, AggregateMax} {
		if t, ok := a.Thresholds[name]; ok {
			return t
		}
	}
	return 0.5
}

func (a Aspect) validate() error {
	if err := CheckAspect(a.Name); err != nil {
		return fmt.Errorf("Name: %w", err)
	}
	if !validWeight(a.Weight) {
		return fmt.Errorf("Weight is %v; use 0 or a positive number", a.Weight)
	}
	for _, aggregate := range slices.Sorted(maps.Keys(a.Thresholds)) {
		if !slices.Contains(Aggregates(), aggregate) {
			return fmt.Errorf("Thresholds[%s]: unknown aggregate; use one of %s", aggregate, join(Aggregates()))
		}
		if t := a.Thresholds[aggregate]; !(t >= 0 && t <= 1) {
			return fmt.Errorf("Thresholds[%s] is %v; it must be in [0,1]", aggregate, t)
		}
	}
	if err := a.Calibration.Validate(); err != nil {
		return fmt.Errorf("Calibration: %w", err)
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

// validateAspects checks the aspects of a model.
func validateAspects(aspects []Aspect) error {
	if len(aspects) > MaxAspects {
		return fmt.Errorf("Aspects: there are %d; a model has at most %d", len(aspects), MaxAspects)
	}
	names, counted := map[string]bool{}, false
	for i, a := range aspects {
		if err := a.validate(); err != nil {
			return fmt.Errorf("Aspects[%d]: %w", i, err)
		}
		if names[a.Name] {
			return fmt.Errorf("Aspects[%d]: there are two with the name %q", i, a.Name)
		}
		names[a.Name] = true
		counted = counted || a.Weight > 0
	}
	if !counted {
		return errors.New("Aspects: all weights are 0; give at least one aspect a positive weight")
	}
	return nil
}
