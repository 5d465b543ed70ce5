package rewardmodel

import (
	"math"
	"slices"

	"assay/rewardmodel/logistic"
)

// maxMargin bounds margins before they are summed: beyond it a violation is 0 or 1
// in float64 precision, and exp could overflow.
const maxMargin = 80

// Violation is g_-1 of an instance with the given margin: its sigmoid, the
// softmax probability of the anomalous class, in [0,1].
func Violation(margin float32) float64 { return logistic.Sigmoid(bound(margin)) }

func bound(margin float32) float64 { return min(max(float64(margin), -maxMargin), maxMargin) }

// bagScore is the violation of a bag. The margin is its logit, computed separately
// so that it stays precise where the violation is close to 0 or 1.
type bagScore struct {
	violation, margin float64
	instances         int // that were aggregated; 0 for an empty bag
}

// aggregate combines the margins of a bag's instances, at least one. Every
// aggregate of a single instance is that instance's violation.
func aggregate(kind Aggregate, k int, margins []float32) bagScore {
	instances := len(margins)
	switch {
	case kind == AggregateMax || instances == 1:
		m := bound(slices.Max(margins))
		return bagScore{logistic.Sigmoid(m), m, instances}
	case kind == AggregateNoisyOr:
		normal := 0.0 // log of the product of 1 - v
		for _, m := range margins {
			normal -= logistic.Softplus(bound(m))
		}
		violation := -math.Expm1(normal)
		return bagScore{violation, math.Log(violation) - normal, instances}
	case kind == AggregateTopK:
		margins = slices.Sorted(slices.Values(margins))
		margins = margins[max(0, len(margins)-k):]
	}
	return mean(margins, instances)
}

// mean is the score of a bag with the given number of instances, of which those with the
// given margins count.
func mean(margins []float32, instances int) bagScore {
	var violation, normal float64
	for _, m := range margins {
		violation += logistic.Sigmoid(bound(m))
		normal += logistic.Sigmoid(-bound(m))
	}
	return bagScore{violation / float64(len(margins)), math.Log(violation) - math.Log(normal), instances}
}

// Aggregates lists the functions that map the violations of instances to that of
// their bag. Training fits a threshold for each.
func Aggregates() []Aggregate {
	return []Aggregate{AggregateMax, AggregateTopK, AggregateNoisyOr, AggregateMean}
}

// Violation is g_-1 of a bag in [0,1]: the aggregate of its instances' margins.
// Only AggregateTopK uses k. A bag without instances has violation 0.
func (a Aggregate) Violation(margins []float32, k int) float64 {
	if len(margins) == 0 {
		return 0
	}
	return aggregate(a, k, margins).violation
}

// Margin is the logit of Violation, which stays precise where the violation is
// close to 0 or 1. It is always finite; a bag without instances has the lowest
// possible margin.
func (a Aggregate) Margin(margins []float32, k int) float64 {
	if len(margins) == 0 {
		return -maxMargin
	}
	return aggregate(a, k, margins).margin
}
