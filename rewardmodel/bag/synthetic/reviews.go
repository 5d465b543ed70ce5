package synthetic

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"assay/rewardmodel/bag"
)

// Reviews creates natural bags: each text is one response, which the reader of
// the bag segments into utterances. A normal text is compliant, an anomalous
// one a violation. Bags differ in size, the share of anomalous utterances is
// unknown, and there is no witness.
type Reviews struct {
	MaxBags     int    // maximum number of training bags of each label; 0: no limit
	MaxTestBags int    // maximum number of test bags of each label; 0: no limit
	Seed        uint64 // determines which texts are sampled
}

// Make samples equally many bags of each label, violations first. HTML line breaks,
// as in IMDB, become newlines. The same sentences and settings result in the
// same bags. The error wraps ErrProtocol for a negative limit and ErrTooFew for a
// split without texts of a kind.
func (r Reviews) Make(s Sentences) (train, test []bag.Bag, err error) {
	if r.MaxBags < 0 || r.MaxTestBags < 0 {
		return nil, nil, fmt.Errorf("%w: at most %d training and %d test bags; give 0 (no limit) or more",
			ErrProtocol, r.MaxBags, r.MaxTestBags)
	}
	if train, err = r.sample("training", s.Train, r.MaxBags, trainStream); err != nil {
		return nil, nil, err
	}
	if test, err = r.sample("test", s.Test, r.MaxTestBags, testStream); err != nil {
		return nil, nil, err
	}
	return train, test, nil
}

func (r Reviews) sample(name string, s Split, limit int, stream uint64) ([]bag.Bag, error) {
	n := min(len(s.Anomalous), len(s.Normal))
	if n == 0 {
		return nil, fmt.Errorf("%w: the %s split has %d normal and %d anomalous ones; use a data set with both",
			ErrTooFew, name, len(s.Normal), len(s.Anomalous))
	}
	if limit > 0 {
		n = min(n, limit)
	}
	breaks := strings.NewReplacer("<br />", "\n", "<br/>", "\n", "<br>", "\n")
	rng := rand.New(rand.NewPCG(r.Seed, stream))
	bags := make([]bag.Bag, 0, 2*n)
	add := func(label bag.Label, kind string, texts []string) {
		for _, i := range rng.Perm(len(texts))[:n] {
			bags = append(bags, bag.Bag{
				ID: fmt.Sprintf("%.2s-%s%d", name, kind, i), Label: label, Response: breaks.Replace(texts[i]),
			})
		}
	}
	add(bag.Violation, "v", s.Anomalous)
	add(bag.Compliant, "c", s.Normal)
	return bags, nil
}
