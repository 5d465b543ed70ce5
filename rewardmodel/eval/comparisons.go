package eval

import (
	"math/rand/v2"

	"assay/rewardmodel/bag"
)

// comparisonAccuracy is the metric of bags that are only compared.
const comparisonAccuracy = "comparison_accuracy"

// divide separates the bags with labels of their own from those that are only compared, by comparison.
func divide(bags []BagScores) (labeled []BagScores, compared [][]BagScores) {
	at := map[string]int{}
	for _, b := range bags {
		if b.Comparison == "" {
			labeled = append(labeled, b)
			continue
		}
		if _, known := at[b.Comparison]; !known {
			at[b.Comparison] = len(compared)
			compared = append(compared, nil)
		}
		i := at[b.Comparison]
		compared[i] = append(compared[i], b)
	}
	return labeled, compared
}

// rankedRight returns, for each comparison with both labels, the probability that a violation in it scores above a compliant
// bag: for a pair of responses 1, 0, or 1/2 for a tie.
func rankedRight(compared [][]BagScores) []float64 {
	var out []float64
	for _, bags := range compared {
		scores, truth := make([]float64, len(bags)), make([]bool, len(bags))
		for i, b := range bags {
			scores[i], truth[i] = b.Score(), b.Label == bag.Violation
		}
		if share := AUROC(scores, truth); share >= 0 { // not NaN
			out = append(out, share)
		}
	}
	return out
}

// resampledMeans returns the means of samples of the values with replacement.
func resampledMeans(values []float64, how Bootstrap) []float64 {
	rng := rand.New(rand.NewPCG(how.Seed, 0xc09a))
	means := make([]float64, how.Resamples)
	for i := range means {
		for range values {
			means[i] += values[rng.IntN(len(values))] / float64(len(values))
		}
	}
	return means
}
