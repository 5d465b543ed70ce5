package baseline

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"assay/rewardmodel/train"
)

// Sampling balances the classes of macro-level learning.
type Sampling string

// The ways to sample bags for an epoch.
const (
	AllBags       Sampling = ""      // every bag once
	Oversampling  Sampling = "over"  // the smaller class is resampled until it has as many bags as the larger
	Undersampling Sampling = "under" // a new random sample of the larger class, as many bags as the smaller class has
)

// Macro is supervised learning on whole responses, each as one sequence: the baseline that does not split bags.
type Macro struct {
	Sampling Sampling
}

// Name is "macro", "macro-over" or "macro-under".
func (m Macro) Name() string {
	if m.Sampling == AllBags {
		return "macro"
	}
	return "macro-" + string(m.Sampling)
}

// Validate returns an error that names the setting that is out of range.
func (m Macro) Validate() error {
	switch m.Sampling {
	case AllBags, Oversampling, Undersampling:
		return nil
	}
	return fmt.Errorf("baseline: sampling is %q; use %q, %s or %s", m.Sampling, AllBags, Oversampling, Undersampling)
}

// Threshold is 0.5.
func (Macro) Threshold() train.Threshold { return train.Fixed }

// Score scores each bag as one sequence.
func (Macro) Score(n *train.Network) ([]train.Score, error) {
	margins, err := n.WholeMargins(n.All())
	scores := make([]train.Score, len(margins))
	for i, m := range margins {
		scores[i].Bag = m
	}
	return scores, err
}

// Steps is the number of mini-batches of an epoch, each of Batch bags.
func (m Macro) Steps(e *train.Epoch) int {
	return batchCount(len(m.sample(e, rand.New(rand.NewPCG(0, 0)))), e)
}

// Epoch trains on the sampled bags in random order.
func (m Macro) Epoch(e *train.Epoch) error {
	e.Stage(m.Name())
	for bags := range slices.Chunk(m.sample(e, e.RNG), e.Batch) {
		if err := e.StepLabeled(wholes(e, bags)); err != nil {
			return err
		}
	}
	return nil
}

// sample returns the bags of an epoch in random order.
func (m Macro) sample(e *train.Epoch, rng *rand.Rand) []int {
	small, large := byLabel(e.Data)
	if len(small) > len(large) {
		small, large = large, small
	}
	var bags []int
	switch m.Sampling {
	case Oversampling:
		bags = append(bags, large...)
		for len(bags) < 2*len(large) {
			rest := 2*len(large) - len(bags)
			for _, i := range rng.Perm(len(small))[:min(rest, len(small))] {
				bags = append(bags, small[i])
			}
		}
	case Undersampling:
		bags = append(bags, small...)
		for _, i := range rng.Perm(len(large))[:len(small)] {
			bags = append(bags, large[i])
		}
	default:
		bags = append(append(bags, small...), large...)
	}
	rng.Shuffle(len(bags), func(i, j int) { bags[i], bags[j] = bags[j], bags[i] })
	return bags
}
