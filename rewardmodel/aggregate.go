package rewardmodel

// Aggregates lists every way to turn the violations of instances into that of
// their bag. Training fits a threshold for each.
func Aggregates() []Aggregate {
	return []Aggregate{AggregateMax, AggregateTopK, AggregateNoisyOr, AggregateMean}
}

// Violation is g_-1 of a bag in [0,1]: the aggregate of its instances' margins.
// k counts for AggregateTopK alone. A bag without instances has violation 0.
func (a Aggregate) Violation(margins []float32, k int) float64 {
	if len(margins) == 0 {
		return 0
	}
	return aggregate(a, k, margins).violation
}

// Margin is the logit of Violation, which keeps its digits where the violation
// is next to 0 or 1. It is always finite; that of a bag without instances is the
// least there is.
func (a Aggregate) Margin(margins []float32, k int) float64 {
	if len(margins) == 0 {
		return -maxMargin
	}
	return aggregate(a, k, margins).margin
}
