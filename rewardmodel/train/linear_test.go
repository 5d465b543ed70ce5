package train

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
)

// linear is a Learner small enough for tests: one weight for each token and label, plain gradient descent.
type linear struct {
	Weights [][2]float64
	steps   int
	stopAt  int // cancel before this step; 0: never
	cancel  context.CancelFunc
}

func newLinear() *linear { return &linear{Weights: make([][2]float64, vocab)} }

func (l *linear) Logits(batch [][]int32) ([][2]float32, error) {
	out := make([][2]float32, len(batch))
	for i, seq := range batch {
		for _, id := range seq {
			out[i][0] += float32(l.Weights[id][0])
			out[i][1] += float32(l.Weights[id][1])
		}
	}
	return out, nil
}

func (l *linear) Step(batch [][]int32, lr float64, loss Loss) (float64, error) {
	l.steps++
	if l.steps == l.stopAt {
		l.cancel()
	}
	logits, _ := l.Logits(batch)
	value, grad := loss(logits)
	for i, seq := range batch {
		for _, id := range seq {
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

// syntheticBags draws bags by the paper's protocol: an anomalous bag holds one instance with badToken among sigma
// normal ones. planted gives its index in each violating bag, -1 in the others.
func syntheticBags(n, sigma int) (d *Data, planted []int) {
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
			d.Bags, planted = append(d.Bags, b), append(planted, at)
		}
	}
	return d, planted
}
