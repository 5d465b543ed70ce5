package eval

import (
	"iter"
	"math/rand/v2"
)

// Resamples samples bags with replacement, as many of each label as there are
// (the stratified bootstrap that is usual for ROC curves: Robin et al. 2011,
// pROC), so that no metric is undefined. The slice is reused.
func Resamples(truth []bool, times int, seed uint64) iter.Seq[[]int] {
	var strata [2][]int
	for i, is := range truth {
		if is {
			strata[0] = append(strata[0], i)
		} else {
			strata[1] = append(strata[1], i)
		}
	}
	return func(yield func([]int) bool) {
		rng := rand.New(rand.NewPCG(seed, 0x9a7e))
		draw := make([]int, len(truth))
		for range times {
			at := 0
			for _, stratum := range strata {
				for range stratum {
					draw[at] = stratum[rng.IntN(len(stratum))]
					at++
				}
			}
			if !yield(draw) {
				return
			}
		}
	}
}
