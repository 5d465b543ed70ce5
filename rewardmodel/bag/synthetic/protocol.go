package synthetic

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"assay/rewardmodel/bag"
)

// Protocol samples bags as in the paper's section "Experiments with Synthetic
// Datasets"; the counts are those of the authors' code.
//
// There are n = |normal| / (SigmaMacro*(SigmaMax+1) + SigmaMax) anomalous
// training bags, rounded down, and SigmaMacro*n normal ones. SigmaMax is that
// of a sweep over SigmaMicro, so that all points of the sweep train on the same number of bags.
// Test bags are balanced: |normal| / (2*SigmaMicro+1) of each kind.
type Protocol struct {
	SigmaMicro int // normal sentences for the anomalous one in its bag, at least 1
	SigmaMacro int // normal bags for each anomalous one in training, at least 1
	// SigmaMax is the largest SigmaMicro of the sweep. 0 uses SigmaMicro, which
	// results in as many bags as the sentences allow; if there are fewer anomalous
	// sentences, their number is the number of bags.
	SigmaMax int

	MaxBags     int // maximum number of anomalous training bags; 0: no limit
	MaxTestBags int // maximum number of test bags of each kind; 0: no limit

	// Seed determines which sentences are sampled and the position of the anomalous one.
	// The test bags of a seed do not depend on the settings of the training bags.
	Seed uint64
}

// The random streams of one seed.
const (
	trainStream = 0x7261696e
	testStream  = 0x74657374
)

// Make samples the bags: all anomalous ones first, then the normal ones, as
// instances with the anomalous one as Witness. Within a split no sentence is
// sampled twice, and the position of the anomalous one is uniform. The same
// sentences and protocol result in the same bags. The error wraps ErrProtocol if a
// sigma is out of range, and ErrTooFew, with what is missing, if the sentences of a
// split are not enough for one bag of each kind.
func (p Protocol) Make(s Sentences) (train, test []bag.Bag, err error) {
	fit := p.SigmaMax == 0
	if fit {
		p.SigmaMax = p.SigmaMicro
	}
	if err := p.validate(); err != nil {
		return nil, nil, err
	}
	share := p.SigmaMacro*(p.SigmaMax+1) + p.SigmaMax // normal sentences for one anomalous bag
	trainMax, testMax := p.MaxBags, p.MaxTestBags
	if fit {
		trainMax, testMax = atMost(trainMax, len(s.Train.Anomalous)), atMost(testMax, len(s.Test.Anomalous))
	}
	train, err = p.sample("training", s.Train, share, trainMax, p.SigmaMacro, trainStream)
	if err != nil {
		return nil, nil, err
	}
	test, err = p.sample("test", s.Test, 2*p.SigmaMicro+1, testMax, 1, testStream)
	if err != nil {
		return nil, nil, err
	}
	return train, test, nil
}

// atMost returns the smaller limit, where 0 is no limit.
func atMost(limit, n int) int {
	if limit == 0 {
		return n
	}
	return min(limit, n)
}

func (p Protocol) validate() error {
	switch {
	case p.SigmaMicro < 1:
		return fmt.Errorf("%w: sigma_micro is %d; use at least 1", ErrProtocol, p.SigmaMicro)
	case p.SigmaMacro < 1:
		return fmt.Errorf("%w: sigma_macro is %d; use at least 1", ErrProtocol, p.SigmaMacro)
	case p.SigmaMax < p.SigmaMicro:
		return fmt.Errorf("%w: sigma_micro is %d, above the %d of the sweep, which determines the number of bags; "+
			"take a smaller one, or a SigmaMax of 0", ErrProtocol, p.SigmaMicro, p.SigmaMax)
	case p.MaxBags < 0 || p.MaxTestBags < 0:
		return fmt.Errorf("%w: at most %d training and %d test bags; use 0 (no limit) or more",
			ErrProtocol, p.MaxBags, p.MaxTestBags)
	}
	return nil
}

// sample creates the bags of one split, one anomalous bag per share of normal
// sentences.
func (p Protocol) sample(name string, s Split, share, limit, macro int, stream uint64) ([]bag.Bag, error) {
	n := len(s.Normal) / share
	if limit > 0 {
		n = min(n, limit)
	}
	switch {
	case n == 0:
		return nil, fmt.Errorf("%w: the %s split has %d normal ones and one violating bag takes %d; "+
			"give more, or a smaller sigma", ErrTooFew, name, len(s.Normal), share)
	case len(s.Anomalous) == 0:
		return nil, fmt.Errorf("%w: the %s split has no anomalous one", ErrTooFew, name)
	case n > len(s.Anomalous):
		return nil, fmt.Errorf("%w: the %s split has %d anomalous ones for %d violating bags; "+
			"give more, or limit the bags to that number", ErrTooFew, name, len(s.Anomalous), n)
	}
	rng := rand.New(rand.NewPCG(p.Seed, stream))
	normal := sampler{rng.Perm(len(s.Normal)), s.Normal}
	anomalous := sampler{rng.Perm(len(s.Anomalous)), s.Anomalous}
	bags := make([]bag.Bag, 0, n*(1+macro))
	for i := range n {
		at := rng.IntN(p.SigmaMicro + 1)
		bags = append(bags, bag.Bag{
			ID: p.id(name, "v", i), Label: bag.Violation, Witness: &at,
			Instances: slices.Insert(normal.next(p.SigmaMicro), at, anomalous.next(1)...),
		})
	}
	for i := range n * macro {
		bags = append(bags, bag.Bag{
			ID: p.id(name, "c", i), Label: bag.Compliant, Instances: normal.next(p.SigmaMicro + 1),
		})
	}
	return bags, nil
}

// id names a bag by split, imbalances, seed, label and number: "tr2-1.0-v17".
func (p Protocol) id(split, kind string, i int) string {
	return fmt.Sprintf("%.2s%d-%d.%d-%s%d", split, p.SigmaMicro, p.SigmaMacro, p.Seed, kind, i)
}

// sampler returns texts without repetition, in the order of a permutation.
type sampler struct {
	order []int
	texts []string
}

func (s *sampler) next(n int) []string {
	out := make([]string, n, n+1)
	for i := range out {
		out[i] = s.texts[s.order[i]]
	}
	s.order = s.order[n:]
	return out
}
