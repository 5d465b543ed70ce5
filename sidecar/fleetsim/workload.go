package fleetsim

import (
	"math"
	"math/rand/v2"
	"time"
)

// Poisson returns n times at random, rate a second on average.
func Poisson(rng *rand.Rand, n int, rate float64) []time.Duration {
	times := make([]time.Duration, n)
	now := 0.0
	for i := range times {
		now += rng.ExpFloat64() / rate
		times[i] = time.Duration(now * float64(time.Second))
	}
	return times
}

// Bursts returns n times, size at once every so often: the rollouts of the steps
// of a trainer.
func Bursts(n, size int, every time.Duration) []time.Duration {
	times := make([]time.Duration, n)
	for i := range times {
		times[i] = time.Duration(i/size) * every
	}
	return times
}

// Lognormal is a distribution of positive lengths by its mean and its
// coefficient of variation (standard deviation over mean).
type Lognormal struct{ Mean, CV float64 }

// Sample returns a length, 1 at least.
func (l Lognormal) Sample(rng *rand.Rand) int {
	variance := math.Log1p(l.CV * l.CV)
	return max(1, int(math.Round(l.Mean*math.Exp(math.Sqrt(variance)*rng.NormFloat64()-variance/2))))
}

// Response returns the lengths of the sequences of a response: of as many tokens
// as response gives, in sentences as sentence gives, each framed by special
// tokens.
func (l Lognormal) Response(rng *rand.Rand, sentence Lognormal, special int) []int {
	var sequences []int
	for left := l.Sample(rng); left > 0; {
		n := min(left, sentence.Sample(rng))
		sequences = append(sequences, n+special)
		left -= n
	}
	return sequences
}
