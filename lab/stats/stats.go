// Package stats summarizes measurements: medians, percentiles and means with their errors, for all benchmarks alike.
package stats

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"
)

// Median returns the middle value, or the mean of the two middle values of an even number. It returns NaN without
// values and leaves their order as it is.
func Median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Percentile returns a percentile of sorted durations by nearest rank; p is in [0,100]. It returns 0 without durations.
func Percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}

// Milliseconds converts a duration.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Mean returns the arithmetic mean, NaN without values.
func Mean(values []float64) float64 { return stat.Mean(values, nil) }

// Difference returns the mean of the paired differences a[i] - b[i] and its standard error, which is NaN for a single
// pair.
func Difference(a, b []float64) (mean, stdErr float64) {
	apart := make([]float64, len(a))
	for i := range a {
		apart[i] = a[i] - b[i]
	}
	mean, deviation := stat.MeanStdDev(apart, nil)
	return mean, stat.StdErr(deviation, float64(len(apart)))
}
