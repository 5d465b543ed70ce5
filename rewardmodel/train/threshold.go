package train

import (
	"cmp"
	"fmt"
	"slices"

	"assay/rewardmodel"
)

// Threshold is a rule for the decision threshold T; all but Fixed adjust it to the scores of labeled bags (the paper's
// adjusted decision threshold, ADT).
type Threshold string

const (
	// Fixed is g_-1 = 0.5: no adjustment.
	Fixed Threshold = "fixed"
	// OnePerBag flags as many instances of the violating bags as there are violating bags (the authors' public code).
	OnePerBag Threshold = "one-per-bag"
	// PerBag flags as many bags as are labeled violations. It suits bags with several anomalous instances, of
	// which OnePerBag would count each.
	PerBag Threshold = "per-bag"
	// Quantile flags the share 1 - pi of all instances, pi = 1 - 1/((sigma_micro+1)(sigma_macro+1)): pi is the normal
	// share of all instances, in violating and compliant bags together.
	Quantile Threshold = "quantile"
	// QuantileUnlabeled applies pi only to the instances of violating bags, as equation 21 of the paper is written.
	// It flags half as many as there are violating bags at sigma_macro 1.
	QuantileUnlabeled Threshold = "quantile-unlabelled"
)

// ThresholdKinds returns all rules.
func ThresholdKinds() []Threshold {
	return []Threshold{Fixed, OnePerBag, PerBag, Quantile, QuantileUnlabeled}
}

// Validate returns an error that lists the rules if kind is unknown.
func (kind Threshold) Validate() error {
	if slices.Contains(ThresholdKinds(), kind) {
		return nil
	}
	return fmt.Errorf("train: threshold is %q; use one of %v", kind, ThresholdKinds())
}

// Thresholds holds one decision threshold T in (0,1) for each way to aggregate a bag: a bag is a violation when its
// aggregated g_-1 exceeds T.
type Thresholds map[rewardmodel.Aggregate]float64

// Place returns the margin above which the score of a bag is a violation. Scores without instances count as bags of
// one instance, of which OnePerBag and PerBag flag as many as are violations.
func (kind Threshold) Place(d *Data, scores []Score, micro, macro float64) (float64, error) {
	var bags, unlabeled, all []float64
	violating := 0
	for i, b := range d.Bags {
		margins := scores[i].Instances
		if margins == nil {
			margins = []float64{scores[i].Bag}
		}
		bags = append(bags, scores[i].Bag)
		all = append(all, margins...)
		if b.Violation {
			violating++
			unlabeled = append(unlabeled, margins...)
		}
	}
	if scores[0].Instances == nil { // the bag is its only instance
		micro, unlabeled = 0, bags
	}
	share := 1 / ((micro + 1) * (macro + 1))
	switch kind {
	case Fixed:
		return 0, nil
	case OnePerBag:
		return above(unlabeled, violating), nil
	case PerBag:
		return above(bags, violating), nil
	case Quantile:
		return above(all, int(float64(len(all))*share+0.5)), nil
	case QuantileUnlabeled:
		return above(unlabeled, int(float64(len(unlabeled))*share+0.5)), nil
	}
	return 0, kind.Validate()
}

// aggregateThresholds returns one threshold for each aggregate of instance scores, by the rule of PerBag, or 0.5 for Fixed.
func (kind Threshold) aggregateThresholds(d *Data, scores []Score) Thresholds {
	bags := map[rewardmodel.Aggregate][]float64{}
	violating := 0
	for i, b := range d.Bags {
		margins := make([]float32, len(scores[i].Instances))
		for k, m := range scores[i].Instances {
			margins[k] = float32(m)
		}
		for _, a := range rewardmodel.Aggregates() {
			bags[a] = append(bags[a], a.Violation(margins, rewardmodel.DefaultTopK))
		}
		if b.Violation {
			violating++
		}
	}
	thresholds := Thresholds{}
	for a, scores := range bags {
		thresholds[a] = 0.5
		if kind != Fixed {
			thresholds[a] = above(scores, violating)
		}
	}
	return thresholds
}

// above returns a threshold that n of the scores exceed unless there are ties: halfway between the n-th largest and the next.
func above(scores []float64, n int) float64 {
	sorted := slices.Clone(scores)
	slices.SortFunc(sorted, func(a, b float64) int { return cmp.Compare(b, a) })
	switch last := len(sorted) - 1; {
	case n <= 0:
		return sorted[0] + 1
	case n > last:
		return sorted[last] - 1
	}
	return (sorted[n-1] + sorted[n]) / 2
}
