package fleetsim

import (
	"math"
	"math/rand/v2"
)

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
