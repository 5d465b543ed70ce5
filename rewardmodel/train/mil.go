package train

import (
	"cmp"
	"fmt"
	"slices"
)

// Pooling is multiple instance learning on instance logits: the logits of a bag are the mean of those of its Top
// instances with the largest margin, trained with the cross-entropy of the bag's label. Top 1 is max pooling (Feng and
// Zhou, 2017); the paper's top-k pooling uses 3. A bag with fewer instances pools all of them.
type Pooling struct {
	Top int
}

// Name is "mil-max" or "mil-topk".
func (m Pooling) Name() string {
	if m.Top == 1 {
		return "mil-max"
	}
	return "mil-topk"
}

// Validate returns an error that names the setting that is out of range.
func (m Pooling) Validate() error {
	if m.Top < 1 {
		return fmt.Errorf("train: top-k is %d; use at least 1", m.Top)
	}
	return nil
}

// Threshold is 0.5.
func (Pooling) Threshold() Threshold { return Fixed }

// Score pools the margins of each bag.
func (m Pooling) Score(n *Network) ([]Score, error) {
	scores, err := scoreInstances(n)
	for i, s := range scores {
		var sum float64
		top := m.top(len(s.Instances), func(k int) float64 { return s.Instances[k] })
		for _, k := range top {
			sum += s.Instances[k]
		}
		scores[i].Bag = sum / float64(len(top))
	}
	return scores, err
}

// Steps is the number of mini-batches of an epoch.
func (Pooling) Steps(e *Epoch) int { return bagSteps(e) }

// Epoch trains on all bags in random order.
func (m Pooling) Epoch(e *Epoch) error {
	e.Stage(m.Name())
	for _, bags := range e.BagBatches(e.RNG) {
		batch, _ := e.members(bags)
		if err := e.step(e.instancesOf(batch), m.lossOf(e, batch)); err != nil {
			return err
		}
	}
	return nil
}

// lossOf is the loss of a mini-batch of whole bags, one after another.
func (m Pooling) lossOf(e *Epoch, batch []ref) aspectLoss {
	var bags, starts []int
	for i, r := range batch {
		if r.instance == 0 {
			bags, starts = append(bags, r.bag), append(starts, i)
		}
	}
	starts = append(starts, len(batch))
	return func(logits [][2]float32) (float64, [][2]float32) { return m.loss(e, bags, starts, logits) }
}

// loss is the mean cross-entropy of the pooled logits; logits[starts[i]:starts[i+1]] are those of bags[i].
func (m Pooling) loss(e *Epoch, bags, starts []int, logits [][2]float32) (float64, [][2]float32) {
	grads := make([][2]float32, len(logits))
	var total float64
	for i, bag := range bags {
		own := logits[starts[i]:starts[i+1]]
		top := m.top(len(own), func(k int) float64 { return margin(own[k]) })
		var pooled [2]float32
		for _, k := range top {
			pooled[0] += own[k][0] / float32(len(top))
			pooled[1] += own[k][1] / float32(len(top))
		}
		value, g := CrossEntropy.of(pooled, e.Data.Bags[bag].Violation)
		total += value / float64(len(bags))
		for _, k := range top {
			for j := range g {
				grads[starts[i]+k][j] = float32(g[j] / float64(len(bags)*len(top)))
			}
		}
	}
	return total, grads
}

// top returns the m.Top of n instances with the largest margins.
func (m Pooling) top(n int, margin func(k int) float64) []int {
	order := make([]int, n)
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(margin(b), margin(a)) })
	return order[:min(m.Top, n)]
}
