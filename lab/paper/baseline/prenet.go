package baseline

import (
	"math/rand/v2"
	"slices"

	"assay/rewardmodel/train"
)

// PReNET is the pairwise relation network (Pang et al., "Deep Weakly-supervised Anomaly Detection", KDD 2023) in the
// version of the BFGPU authors' public code: each instance of a mini-batch is paired with one from a random
// permutation, a linear head on both features predicts the mean of their labels (1 in a violating bag, 0 in a
// compliant one), with the mean squared error; an instance x is scored by the head on (x, x), with the threshold 0.5.
//
// Pang et al. sample half of the pairs from unlabeled instances only and a quarter from each of the two mixtures, learn
// the ordinal targets 0, 4 and 8 with the absolute error, and score x by its mean relation to random instances of both
// kinds. The targets differ only in scale, and that score only by a constant, since the head is linear.
type PReNET struct {
	head
	relation *dense
}

// Name is "mil-prenet".
func (*PReNET) Name() string { return "mil-prenet" }

// Validate returns nil.
func (*PReNET) Validate() error { return nil }

// Threshold is a relation of 0.5.
func (*PReNET) Threshold() train.Threshold { return train.Fixed }

// Begin initializes the parameters at random.
func (m *PReNET) Begin(e *train.Epoch, width int) error {
	m.build(width, e.RNG)
	return nil
}

func (m *PReNET) build(width int, rng *rand.Rand) {
	m.head = head{width: width, rng: rng}
	m.relation = m.dense(2*width, 1, 2*width)
}

// UnmarshalBinary restores what MarshalBinary returned.
func (m *PReNET) UnmarshalBinary(data []byte) error { return m.load(data, m.build) }

// Steps is the number of mini-batches of an epoch, each of Batch instances.
func (*PReNET) Steps(e *train.Epoch) int { return batchCount(instanceCount(e.Data), e) }

// Epoch trains on all instances in random order.
func (m *PReNET) Epoch(e *train.Epoch) error {
	e.Stage(m.Name())
	for _, batch := range instanceBatches(e, e.All()) {
		violation, partner := violations(e.Data, batch), e.RNG.Perm(len(batch))
		loss := func(features [][]float32, lr float64) (float64, [][]float32) {
			value, grads := m.loss(violation, partner, features)
			m.adam(lr)
			return value, grads
		}
		if err := e.StepFeatures(instances(e, batch), loss); err != nil {
			return err
		}
	}
	return nil
}

// loss also computes the gradients of the head, in its blocks.
func (m *PReNET) loss(violation []bool, partner []int, features [][]float32) (float64, [][]float32) {
	m.clear()
	rows, grads := wide(features), zeros(len(features), m.width)
	var total float64
	n := float64(len(rows))
	for i, j := range partner {
		var label float64
		for _, k := range []int{i, j} {
			if violation[k] {
				label += 0.5
			}
		}
		pair, gradPair := slices.Concat(rows[i], rows[j]), make([]float64, 2*m.width)
		residual := m.relation.forward(pair)[0] - label
		total += residual * residual / n
		m.relation.backward(pair, []float64{2 * residual / n}, gradPair)
		axpy(1, gradPair[:m.width], grads[i])
		axpy(1, gradPair[m.width:], grads[j])
	}
	return total, narrow(grads)
}

// Score scores each bag by its instance with the largest relation to itself. The margin, 4(s - 1/2), is the log odds of
// a probability s to first order; s itself may leave [0,1].
func (m *PReNET) Score(n *train.Network) ([]train.Score, error) {
	return scoreByFeatures(n, &m.head, m.scoreBag)
}

func (m *PReNET) scoreBag(features [][]float64) train.Score {
	var score train.Score
	for _, h := range features {
		score.Instances = append(score.Instances, 4*(m.relation.forward(slices.Concat(h, h))[0]-0.5))
	}
	score.Bag = slices.Max(score.Instances)
	return score
}
