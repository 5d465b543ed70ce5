package train

import "math/rand/v2"

// MiniBatch is one of the steps that BFGPU takes with WeightsBatch.
type MiniBatch struct {
	Sequences [][]int32
	Violation []bool // the labels of their bags
}

// Shuffled deals all instances into mini-batches of at most size in an order given by seed.
func (d *Data) Shuffled(size int, seed uint64) []MiniBatch {
	e := newEpoch(d, size)
	var out []MiniBatch
	for _, batch := range e.instanceBatches(rand.New(rand.NewPCG(seed, 0))) {
		out = append(out, MiniBatch{e.instancesOf(batch), e.violations(batch)})
	}
	return out
}

// LambdaPU is 1/pi_micro as the bags' lengths estimate it.
func (d *Data) LambdaPU() float64 { return 1 / newEpoch(d, 1).pi(0) }

// BatchLoss is the loss of BFGPU on one mini-batch as the authors' public code computes it: WeightsBatch, CrossEntropy,
// NormaliserSum.
func BatchLoss(violation []bool, lambda float64) Loss {
	d, batch := &Data{}, make([]ref, len(violation))
	for i, v := range violation {
		d.Bags, batch[i] = append(d.Bags, Bag{Violation: v}), ref{bag: i}
	}
	m := DefaultBFGPU()
	m.Loss, m.LambdaPU = CrossEntropy, lambda
	return m.loss(&Epoch{Network: Network{Data: d}}, batch).rows
}
