package fleetsim

import (
	"math"
	"math/rand/v2"
)

// Lognormal is a distribution of positive lengths by its mean and its coefficient of variation (standard deviation over
// mean).
type Lognormal struct{ Mean, CV float64 }

// Sample returns a length of at least 1.
func (l Lognormal) Sample(rng *rand.Rand) int {
	variance := math.Log1p(l.CV * l.CV)
	return max(1, int(math.Round(l.Mean*math.Exp(math.Sqrt(variance)*rng.NormFloat64()-variance/2))))
}

// Response samples the lengths of the sequences of a response: l gives its tokens, sentence those of each sentence, and
// special is the number of special tokens around each.
func (l Lognormal) Response(rng *rand.Rand, sentence Lognormal, special int) []int {
	var sequences []int
	for left := l.Sample(rng); left > 0; {
		n := min(left, sentence.Sample(rng))
		sequences = append(sequences, n+special)
		left -= n
	}
	return sequences
}
