package baseline

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"

	"assay/rewardmodel"
	"assay/rewardmodel/train"
)

// embedding is a small train.Learner: the features of a sequence are the sum of those of its tokens, which plain gradient
// descent trains. It has no logits.
type embedding struct {
	Embed  [][width]float64
	steps  int
	stopAt int // cancel before this step; 0: never
	cancel context.CancelFunc
}

const (
	width    = 6
	vocab    = 48
	badToken = 7
)

func newEmbedding() *embedding {
	l := &embedding{Embed: make([][width]float64, vocab)}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range l.Embed {
		for j := range l.Embed[i] {
			l.Embed[i][j] = rng.NormFloat64() / 2
		}
	}
	return l
}

func (l *embedding) Features(batch []rewardmodel.Sequence) ([][]float32, error) {
	out := make([][]float32, len(batch))
	for i, seq := range batch {
		out[i] = make([]float32, width)
		for _, id := range seq.IDs {
			for j, v := range l.Embed[id] {
				out[i][j] += float32(v)
			}
		}
	}
	return out, nil
}

func (l *embedding) StepFeatures(batch []rewardmodel.Sequence, lr float64, loss train.FeatureLoss) (float64, error) {
	l.count()
	features, _ := l.Features(batch)
	value, grad := loss(features)
	for i, seq := range batch {
		for _, id := range seq.IDs {
			for j := range l.Embed[id] {
				l.Embed[id][j] -= lr * float64(grad[i][j])
			}
		}
	}
	return value, nil
}

func (l *embedding) Step([]rewardmodel.Sequence, float64, train.Loss) (float64, error) {
	panic("no logits")
}

func (l *embedding) Logits([]rewardmodel.Sequence) ([][]float32, error) { panic("no logits") }

func (l *embedding) count() {
	l.steps++
	if l.steps == l.stopAt {
		l.cancel()
	}
}

func (l *embedding) SaveState(file string) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

func (l *embedding) LoadState(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, l)
}

// syntheticBags samples bags by the paper's protocol: an anomalous bag has one instance with badToken among sigma
// normal ones. witnesses has its index in each violating bag, and -1 for the others.
func syntheticBags(n, sigma int) (d *train.Data, witnesses []int) {
	rng := rand.New(rand.NewPCG(4, 2))
	d = &train.Data{}
	for range n {
		for _, violation := range []bool{true, false} {
			b, at := train.Bag{Violation: violation}, -1
			for range sigma + 1 {
				seq := make([]int32, 3)
				for i := range seq {
					seq[i] = int32(badToken + 1 + rng.IntN(vocab-badToken-1))
				}
				b.Instances = append(b.Instances, seq)
			}
			if violation {
				at = rng.IntN(sigma + 1)
				b.Instances[at][1] = badToken
			}
			for k, seq := range b.Instances {
				b.Whole = append(b.Whole, seq...)
				b.Gold = append(b.Gold, k == at)
			}
			d.Bags, witnesses = append(d.Bags, b), append(witnesses, at)
		}
	}
	return d, witnesses
}
