package batching

import (
	"math"
	"time"
)

// Throughput estimates how fast the model computes, from tokens and the time
// they took; the last throughputWindow of computing counts most. Long batches
// count more than short ones, so that a full queue is judged by full batches as
// soon as there are some. The zero value has no measurement.
type Throughput struct {
	tokens  float64
	seconds float64
	warmUp  int // tokens without a measurement: the first calls of a model may take much longer
}

const throughputWindow = 10 * time.Second

// Observe counts a call of the model.
func (t *Throughput) Observe(tokens int, took time.Duration) {
	t.warmUp = max(0, t.warmUp-tokens)
	keep := math.Exp(-took.Seconds() / throughputWindow.Seconds())
	t.tokens = t.tokens*keep + float64(tokens)
	t.seconds = t.seconds*keep + took.Seconds()
}

// TimeFor is the time that tokens take; 0 without a measurement.
func (t *Throughput) TimeFor(tokens int) time.Duration {
	if t.tokens == 0 || t.warmUp > 0 {
		return 0
	}
	return seconds(float64(tokens) * t.seconds / t.tokens)
}

// capacity is how many tokens are computed within d; math.MaxInt32 without a
// measurement.
func (t *Throughput) capacity(d time.Duration) int {
	if t.seconds == 0 || t.warmUp > 0 {
		return math.MaxInt32
	}
	return int(min(t.tokens*d.Seconds()/t.seconds, math.MaxInt32))
}

// seconds returns n seconds, without overflow.
func seconds(n float64) time.Duration {
	return time.Duration(min(n*float64(time.Second), math.MaxInt64/2))
}
