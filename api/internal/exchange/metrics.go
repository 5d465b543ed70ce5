package exchange

import (
	"github.com/prometheus/client_golang/prometheus"
)

// UnmatchedRoute is the metric and log label of requests that match no route.
const UnmatchedRoute = "unmatched"

// DurationBuckets returns the histogram buckets of the time that a request
// takes, in seconds.
func DurationBuckets() []float64 {
	return []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}
}

// SizeBuckets returns the histogram buckets of the size of a request in bytes.
func SizeBuckets() []float64 { return prometheus.ExponentialBuckets(256, 4, 10) }
