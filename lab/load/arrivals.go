package load

import (
	"math/rand/v2"
	"time"
)

// Regular returns n times at fixed intervals, rate per second.
func Regular(n int, rate float64) []time.Duration {
	times := make([]time.Duration, n)
	for i := range times {
		times[i] = time.Duration(float64(i) / rate * float64(time.Second))
	}
	return times
}

// Poisson returns n random times of independent arrivals, rate per second on average.
func Poisson(rng *rand.Rand, n int, rate float64) []time.Duration {
	times := make([]time.Duration, n)
	now := 0.0
	for i := range times {
		now += rng.ExpFloat64() / rate
		times[i] = time.Duration(now * float64(time.Second))
	}
	return times
}

// Bursts returns n times in bursts of size arrivals, one burst per interval: the rollouts of the steps of a trainer.
func Bursts(n, size int, interval time.Duration) []time.Duration {
	times := make([]time.Duration, n)
	for i := range times {
		times[i] = time.Duration(i/size) * interval
	}
	return times
}
