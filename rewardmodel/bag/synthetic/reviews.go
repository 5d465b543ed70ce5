package synthetic

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"assay/rewardmodel/bag"
)

// Reviews makes real bags: each text is a separate response, which the reader of
// the bag segments into utterances. A normal text is compliant, an anomalous
// one a violation. Bags differ in size, the share of anomalous utterances is
// unknown, and there is no witness.
type Reviews struct {
	MaxBags     int    // most training bags of each label; 0: no cap
	MaxTestBags int    // most test bags of each label; 0: no cap
	Seed        uint64 // decides which texts are drawn
}

// Make draws as many bags of each label, violations first. Line breaks in HTML,
// as IMDB has them, become real ones. The same sentences and request give the
// same bags. The error wraps ErrProtocol for a negative cap and ErrTooFew for a
// split without texts of a kind.
func (r Reviews) Make(s Sentences) (train, test []bag.Bag, err error) {
	if r.MaxBags < 0 || r.MaxTestBags < 0 {
		return nil, nil, fmt.Errorf("%w: at most %d training and %d test bags; give 0 (no cap) or more",
			ErrProtocol, r.MaxBags, r.MaxTestBags)
	}
	if train, err = r.draw("training", s.Train, r.MaxBags, trainStream); err != nil {
		return nil, nil, err
	}
	if test, err = r.draw("test", s.Test, r.MaxTestBags, testStream); err != nil {
		return nil, nil, err
	}
	return train, test, nil
}

func (r Reviews) draw(name string, s Split, limit int, stream uint64) ([]bag.Bag, error) {
	n := min(len(s.Anomalous), len(s.Normal))
	if n == 0 {
		return nil, fmt.Errorf("%w: the %s split has %d normal and %d anomalous ones; give some of each",
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
