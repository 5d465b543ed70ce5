package baseline

import (
	"math"
	"slices"
	"testing"

	"assay/rewardmodel/train"
)

// TestHeadsLearnFromBags trains each method that has its own head on coarse labels, and evaluates it on held-out bags.
func TestHeadsLearnFromBags(t *testing.T) {
	for name, m := range map[string]train.Stateful{"mil-attention": &Attention{}, "mil-fgsa": &FGSA{hidden: 10, attention: 20}, "mil-prenet": &PReNET{}} {
		data, witnesses := syntheticBags(200, 4)
		training, test := &train.Data{Bags: data.Bags[:240]}, &train.Data{Bags: data.Bags[240:]}
		l := newEmbedding()
		cfg := featureConfig(m)
		cfg.Rate, cfg.Epochs = 0.15, 20
		if _, err := train.Run(t.Context(), l, training, cfg); err != nil {
			t.Fatal(err)
		}
		scores, err := train.ScoreBags(t.Context(), l, 0, test, m)
		if err != nil {
			t.Fatal(err)
		}
		hits := 0
		for i, s := range scores {
			if at := witnesses[240+i]; at >= 0 && slices.Index(s.Instances, slices.Max(s.Instances)) == at {
				hits++
			}
		}
		roc := auroc(test, scores)
		t.Logf("%s: AUROC %.3f, %d of 80 witnesses", name, roc, hits)
		if roc < 0.8 {
			t.Errorf("%s: AUROC %v of unseen bags", name, roc)
		}
	}
}

// TestInstanceScoresAgreeWithTheirBag checks the assumption of a threshold on instances.
func TestInstanceScoresAgreeWithTheirBag(t *testing.T) {
	data, _ := syntheticBags(20, 3)
	for _, m := range []train.Stateful{&Attention{}, &FGSA{}, &PReNET{}} {
		result, err := train.Run(t.Context(), newEmbedding(), data, featureConfig(m))
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range result.Scores {
			want := slices.Max(s.Instances)
			if m.Name() == "mil-fgsa" { // the polarity of a bag is the sum of those of its instances
				var sum float64
				for _, margin := range s.Instances {
					sum += math.Tanh(margin / 2)
				}
				want = 2 * math.Atanh(sum)
			}
			if len(s.Instances) != len(data.Bags[i].Instances) || math.Abs(s.Bag-want) > 1e-9 {
				t.Fatalf("%s: bag %d scores %v, its instances result in %v", m.Name(), i, s.Bag, want)
			}
		}
	}
}
