package train

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"

	"assay/rewardmodel"
)

// linear is a small Learner: one weight for each token and label, and for each token and feature, with plain gradient
// descent.
type linear struct {
	Weights [][2]float64
	Embed   [][width]float64
	steps   int
	stopAt  int // cancel before this step; 0: never
	cancel  context.CancelFunc
}

// width is the number of linear's features.
const width = 6

func newLinear() *linear {
	l := &linear{Weights: make([][2]float64, vocab), Embed: make([][width]float64, vocab)}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range l.Embed {
		for j := range l.Embed[i] {
			l.Embed[i][j] = rng.NormFloat64() / 2
		}
	}
	return l
}

func (l *linear) Features(batch []rewardmodel.Sequence) ([][]float32, error) {
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

func (l *linear) StepFeatures(batch []rewardmodel.Sequence, lr float64, loss FeatureLoss) (float64, error) {
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

func (l *linear) count() {
	l.steps++
	if l.steps == l.stopAt {
		l.cancel()
	}
}

func (l *linear) Logits(batch []rewardmodel.Sequence) ([][]float32, error) {
	out := make([][]float32, len(batch))
	for i, seq := range batch {
		out[i] = make([]float32, 2)
		for _, id := range seq.IDs {
			out[i][0] += float32(l.Weights[id][0])
			out[i][1] += float32(l.Weights[id][1])
		}
	}
	return out, nil
}

// pairs returns the logits of instances.
func (l *linear) pairs(instances [][]int32) [][2]float32 {
	batch := make([]rewardmodel.Sequence, len(instances))
	for i, ids := range instances {
		batch[i].IDs = ids
	}
	logits, _ := l.Logits(batch)
	return pairsOf(logits, 0)
}

func (l *linear) Step(batch []rewardmodel.Sequence, lr float64, loss Loss) (float64, error) {
	l.count()
	logits, _ := l.Logits(batch)
	value, grad := loss(logits)
	for i, seq := range batch {
		for _, id := range seq.IDs {
			l.Weights[id][0] -= lr * float64(grad[i][0])
			l.Weights[id][1] -= lr * float64(grad[i][1])
		}
	}
	return value, nil
}

func (l *linear) SaveState(file string) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

func (l *linear) LoadState(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, l)
}

const (
	vocab    = 48
	badToken = 7
)

// syntheticBags samples bags by the paper's protocol: an anomalous bag has one instance with badToken among sigma
// normal ones. witnesses has its index in each violating bag, and -1 for the others.
func syntheticBags(n, sigma int) (d *Data, witnesses []int) {
	rng := rand.New(rand.NewPCG(4, 2))
	d = &Data{}
	for range n {
		for _, violation := range []bool{true, false} {
			b, at := Bag{Violation: violation}, -1
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
