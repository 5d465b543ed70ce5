package calibration

import "assay/rewardmodel/logistic"

// Spread returns the map that makes rewards below 0.5 use their range, for a threshold that few values exceed: such
// a threshold is close to the largest violations of a model, whose rewards would all be just below 0.5. Of the negative
// log-odds, which should be those of violations, it maps a quantile q to the log-odds of the reward (1-q)/2, unless
// they are lower already. Positive ones stay as they are, and so do all if fewer than MinSide are negative.
func Spread(logOdds []float64) Map {
	distances := side(logOdds, -1)
	to := make([]float64, len(distances))
	for i, distance := range distances {
		q := (float64(i) + 0.5) / float64(len(distances))
		to[i] = -max(distance, -logistic.Logit((1-q)/2))
	}
	return Fit(logOdds, to)
}
