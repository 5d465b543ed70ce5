package train

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"assay/rewardmodel"
	"assay/rewardmodel/logistic"
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
	// FalseAlarms flags the share Config.FalseAlarms of the compliant bags, at every length: the log-odds of T grow with the
	// logarithm of the number of instances. It reads no violations, unlike the others. Result.Calibration then spreads the
	// rewards of the violating bags beyond T.
	FalseAlarms Threshold = "false-alarms"
)

// DefaultFalseAlarms is the default share of FalseAlarms.
const DefaultFalseAlarms = 0.02

// PlacedKinds returns the rules of Place.
func PlacedKinds() []Threshold {
	return []Threshold{Fixed, OnePerBag, PerBag, Quantile, QuantileUnlabeled}
}

// ThresholdKinds returns all rules.
func ThresholdKinds() []Threshold { return append(PlacedKinds(), FalseAlarms) }

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

// Place returns, for any rule but FalseAlarms, the margin above which the score of a bag is a violation. Scores without
// instances count as bags of one instance, of which OnePerBag and PerBag flag as many as are violations.
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
	return 0, fmt.Errorf("train: threshold is %q; use one of %v", kind, PlacedKinds())
}

// falseAlarms returns the thresholds of FalseAlarms, the margin of that of max, and its slope.
func falseAlarms(d *Data, scores []Score, share float64) (thresholds Thresholds, threshold, slope float64) {
	margins := map[rewardmodel.Aggregate][]float64{}
	var lengths []int
	for i, b := range d.Bags {
		if b.Violation {
			continue
		}
		instances := scores[i].margins()
		for _, a := range rewardmodel.Aggregates() {
			margins[a] = append(margins[a], a.Margin(instances, rewardmodel.DefaultTopK))
		}
		lengths = append(lengths, len(instances))
	}
	thresholds = Thresholds{}
	for a, m := range margins {
		thresholds[a] = logistic.Sigmoid(above(m, flagged(m, share)))
	}
	threshold, slope = fitLengths(margins[rewardmodel.AggregateMax], lengths, share)
	thresholds[rewardmodel.AggregateMax] = logistic.Sigmoid(threshold)
	return thresholds, threshold, slope
}

// Bounds of fitLengths.
const (
	maxFittedSlope = 3   // that of an exponential tail of margins is its scale, about 1
	minLengths     = 3   // that differ
	minLengthBags  = 200 // a share of a few bags says nothing about lengths
)

// fitLengths fits the threshold of bags of length n, threshold + slope*ln(n), which the given share of the margins exceeds,
// by quantile regression (Koenker and Bassett 1978). The slope is in [0,maxFittedSlope], and 0 with too few bags or lengths.
func fitLengths(margins []float64, lengths []int, share float64) (threshold, slope float64) {
	logs := make([]float64, len(lengths))
	for i, n := range lengths {
		logs[i] = math.Log(float64(n))
	}
	corrected := func(slope float64) []float64 {
		out := make([]float64, len(margins))
		for i, m := range margins {
			out[i] = m - slope*logs[i]
		}
		return out
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(lengths)))
	if len(margins) >= minLengthBags && len(distinct) >= minLengths {
		loss := func(slope float64) float64 { return pinball(corrected(slope), share) } // convex
		least, largest := 0.0, float64(maxFittedSlope)
		for range 30 {
			third := (largest - least) / 3
			if loss(least+third) <= loss(largest-third) {
				largest -= third
			} else {
				least += third
			}
		}
		if slope = (least + largest) / 2; loss(0) <= loss(slope) {
			slope = 0
		}
	}
	residuals := corrected(slope)
	return above(residuals, flagged(residuals, share)), slope
}

// pinball is the loss of quantile regression of values from their best constant, which a share of them exceeds.
func pinball(values []float64, share float64) (sum float64) {
	sorted := slices.Sorted(slices.Values(values))
	quantile := sorted[len(sorted)-1-flagged(values, share)]
	for _, v := range values {
		sum += max((1-share)*(v-quantile), share*(quantile-v))
	}
	return sum
}

// flagged is how many of the values a share of them is, at most.
func flagged(values []float64, share float64) int {
	const rounding = 1e-9
	return int(share*float64(len(values)) + rounding)
}

// aggregateThresholds returns one threshold for each aggregate of instance scores, by the rule of PerBag, or 0.5 for Fixed.
func (kind Threshold) aggregateThresholds(d *Data, scores []Score) Thresholds {
	bags := map[rewardmodel.Aggregate][]float64{}
	violating := 0
	for i, b := range d.Bags {
		margins := scores[i].margins()
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
