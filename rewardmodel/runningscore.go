package rewardmodel

import (
	"math"
	"slices"
)

// runningScore is the score of a bag that grows, for one aspect. After each instance it
// is that of aggregate, to the last bit. Its copy by clone is independent.
type runningScore struct {
	bag  prefix
	k    int
	top  []float32 // topk: the largest margins, at most k, ascending
	last bagScore
}

func newRunningScore(o Options) runningScore {
	return runningScore{bag: prefix{kind: o.Aggregate, highest: math.Inf(-1)}, k: *o.TopK}
}

func (r runningScore) clone() runningScore {
	r.top = slices.Clone(r.top)
	return r
}

// add adds an instance and returns the score of the bag.
func (r *runningScore) add(margin float32) bagScore {
	if r.bag.kind != AggregateTopK {
		r.last = r.bag.add(0, bound(margin))
		return r.last
	}
	at, _ := slices.BinarySearch(r.top, margin)
	r.top = slices.Insert(r.top, at, margin)
	r.top = r.top[max(0, len(r.top)-r.k):]
	if r.bag.count++; r.bag.count == 1 {
		r.last = aggregate(AggregateTopK, r.k, r.top)
	} else {
		r.last = mean(r.top, r.bag.count)
	}
	return r.last
}

// minimum is the minimum violation that the bag can have once at most more instances are
// added to it. It is exact for max and noisy_or, which never decrease, and for topk once
// there are k instances; otherwise the further instances may all be compliant and lower
// the mean.
func (r *runningScore) minimum(more int) float64 {
	switch r.bag.kind {
	case AggregateMax:
		return r.last.violation
	case AggregateNoisyOr:
		return min(r.last.violation, -math.Expm1(r.bag.normal)) // the score of one instance is rounded differently
	}
	divisor := r.bag.count + more
	if r.bag.kind == AggregateTopK {
		divisor = min(divisor, r.k)
	}
	counted := r.bag.count
	if r.bag.kind == AggregateTopK {
		counted = len(r.top)
	}
	if divisor <= counted {
		return r.last.violation
	}
	const rounding = 1e-12 // relative; far above the error of summing all instances
	return r.last.violation * float64(counted) / float64(divisor) * (1 - rounding)
}
