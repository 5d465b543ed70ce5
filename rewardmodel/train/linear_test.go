package train

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"

	"assay/rewardmodel"
)

// linear is a small Learner: one weight for each token and label, with plain gradient descent. It has no features.
type linear struct {
	Weights [][2]float64
	steps   int
	stopAt  int // cancel before this step; 0: never
	cancel  context.CancelFunc
}

func newLinear() *linear { return &linear{Weights: make([][2]float64, vocab)} }

func (l *linear) Features([]rewardmodel.Sequence) ([][]float32, error) { panic("no features") }

func (l *linear) StepFeatures([]rewardmodel.Sequence, float64, FeatureLoss) (float64, error) {
	panic("no features")
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
