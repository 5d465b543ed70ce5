package train

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"assay/rewardmodel"
	"assay/rewardmodel/logistic"
)

// Weights selects the instances over which the weight p(x) of the BFGPU loss is a softmax.
type Weights string

const (
	// WeightsBatch is the softmax of the logit of the violation over the unlabeled (resp. normal) instances of the
	// mini-batch, as in the authors' public code.
	WeightsBatch Weights = "batch"
	// WeightsPaper is the softmax of g_-1 over the instances of the same bag (the paper's p-hat).
	WeightsPaper Weights = "paper"
)

// Normaliser selects the divisor of the weighted losses of a class.
type Normaliser string

const (
	// NormaliserSum makes the weights of a class sum to 1 in a mini-batch, as in the authors' public code.
	NormaliserSum Normaliser = "sum"
	// NormaliserCount divides by twice the number of instances of the class in the mini-batch, the paper's 1/(2|P|)
	// and 1/(2|U|).
	NormaliserCount Normaliser = "count"
)

// BFGPU is the paper's method (Algorithm 1). Its zero value is invalid; start from DefaultBFGPU.
type BFGPU struct {
	Weights    Weights
	Loss       LossKind
	Normaliser Normaliser
	// PULoss enables the first stage of each epoch, the weighted loss over all instances. Without it (an ablation of the
	// paper, and a way to fine-tune a trained model) the scores for the pseudo labels are always recomputed.
	PULoss bool
	// PseudoLabels adds the second stage of each epoch: the witness of every violating bag as a violation, its least
	// anomalous instance as compliant.
	PseudoLabels bool
	// RecordDuring takes the scores that choose the pseudo labels from the training passes of the epoch, as the
	// authors' code does; otherwise the bags are scored again after the first stage, as in the paper.
	RecordDuring bool
	// SigmaMicro is the number of normal instances for each anomalous one in a violating bag; 0 estimates it as the
	// mean length of the violating bags less one.
	SigmaMicro float64
	// LambdaPU and LambdaPseudo scale the losses of the two stages; 0 means the paper's 1/pi_micro and 1.
	LambdaPU, LambdaPseudo float64
	// LambdaBag scales the loss of mil-max, the cross-entropy of the label of a bag and the margin of its witness, which it
	// adds to the first stage; 0 adds none, as in the paper. The weights p(x) favor what already looks anomalous, so that
	// the first stage hardly learns from a violation that the network overlooks; this does.
	LambdaBag float64
}

// DefaultBFGPU is the variant with the best results: the weights and the loss of the authors' public code, the pseudo labels
// of the paper's text. On synthetic bags the symmetric loss, which the theory asks for, is as good (docs/paper); on mixed
// real bags it saturates, and all rewards end up near 0.5.
func DefaultBFGPU() BFGPU {
	return BFGPU{Weights: WeightsBatch, Loss: CrossEntropy, Normaliser: NormaliserSum, PULoss: true, PseudoLabels: true}
}

// Name is "bfgpu".
func (BFGPU) Name() string { return "bfgpu" }

// Threshold flags as many bags as are violations, the adjusted threshold with the best results.
func (BFGPU) Threshold() Threshold { return PerBag }

// Score takes the witness of each bag.
func (BFGPU) Score(n *Network) ([]Score, error) { return scoreInstances(n) }

// Validate returns an error that names the setting that is out of range.
func (m BFGPU) Validate() error {
	switch {
	case m.Weights != WeightsBatch && m.Weights != WeightsPaper:
		return fmt.Errorf("train: weights is %q; use %s or %s", m.Weights, WeightsBatch, WeightsPaper)
	case m.Loss != CrossEntropy && m.Loss != Sigmoid:
		return fmt.Errorf("train: loss is %q; use %s or %s", m.Loss, CrossEntropy, Sigmoid)
	case m.Normaliser != NormaliserSum && m.Normaliser != NormaliserCount:
		return fmt.Errorf("train: normaliser is %q; use %s or %s", m.Normaliser, NormaliserSum, NormaliserCount)
	case !m.PULoss && !m.PseudoLabels:
		return errors.New("train: neither the PU loss nor pseudo labels are on; enable at least one")
	case !(m.SigmaMicro >= 0):
		return fmt.Errorf("train: sigma_micro is %v; use 0 (estimate) or a positive number", m.SigmaMicro)
	case !(m.LambdaPU >= 0) || !(m.LambdaPseudo >= 0) || !(m.LambdaBag >= 0):
		return fmt.Errorf("train: lambdas are %v, %v and %v; use 0 (the paper's) or a positive number", m.LambdaPU, m.LambdaPseudo, m.LambdaBag)
	}
	return nil
}

// Steps is the number of mini-batches of an epoch, both stages.
func (m BFGPU) Steps(e *Epoch) int {
	steps := 0
	if m.PULoss {
		steps += len(m.batches(e, rand.New(rand.NewPCG(0, 0))))
	}
	if m.PseudoLabels {
		steps += pseudoSteps(e)
	}
	return steps
}

// Epoch trains with the weighted loss on all instances and then with the plain loss on the pseudo labels, as enabled.
func (m BFGPU) Epoch(e *Epoch) error {
	scores := e.blankScores()
	if m.PULoss {
		e.Stage("bfgpu")
		for _, batch := range m.batches(e, e.RNG) {
			loss := m.loss(e, batch)
			if m.LambdaBag > 0 {
				loss = plus(loss, m.LambdaBag, Pooling{Top: 1}.lossOf(e, batch))
			}
			if err := e.step(e.instancesOf(batch), record(scores, batch, loss)); err != nil {
				return err
			}
		}
	}
	if !m.PseudoLabels {
		return nil
	}
	if !m.PULoss || !m.RecordDuring {
		if err := e.rescore(scores); err != nil {
			return err
		}
	}
	return pseudoStage(e, scores, m.Loss, m.LambdaPseudo)
}

// batches splits the instances into mini-batches in random order, with whole bags in one mini-batch if the loss needs that.
func (m BFGPU) batches(e *Epoch, rng *rand.Rand) [][]ref {
	if m.Weights == WeightsPaper || m.LambdaBag > 0 {
		var batches [][]ref
		for _, bags := range e.BagBatches(rng) {
			batch, _ := e.members(bags)
			batches = append(batches, batch)
		}
		return batches
	}
	return e.instanceBatches(rng)
}

// loss is lambda_bfgpu * R of Algorithm 1 for one mini-batch, lambda_bfgpu = 1/pi_micro.
func (m BFGPU) loss(e *Epoch, batch []ref) aspectLoss {
	violation := make([]bool, len(batch))
	groups := map[int][]int{} // the instances that share a softmax
	members := map[bool]int{} // instances of a class
	for i, r := range batch {
		violation[i] = e.Data.Bags[r.bag].Violation
		members[violation[i]]++
		key := r.bag
		if m.Weights == WeightsBatch {
			key = 0
			if violation[i] {
				key = 1
			}
		}
		groups[key] = append(groups[key], i)
	}
	sums := map[bool]int{} // each softmax sums to 1
	for _, g := range groups {
		sums[violation[g[0]]]++
	}
	lambda := m.LambdaPU
	if lambda == 0 {
		lambda = 1 / e.pi(m.SigmaMicro)
	}
	scale := map[bool]float64{}
	for class, n := range members {
		scale[class] = lambda / float64(sums[class])
		if m.Normaliser == NormaliserCount {
			scale[class] = lambda / (2 * float64(n))
		}
	}
	return func(logits [][2]float32) (float64, [][2]float32) {
		weight := make([]float64, len(batch))
		for _, g := range groups {
			softmaxOver(weight, g, func(i int) float64 {
				if m.Weights == WeightsPaper {
					return logistic.Sigmoid(margin(logits[i]))
				}
				return float64(logits[i][0])
			})
		}
		for i := range weight {
			weight[i] *= scale[violation[i]]
		}
		return weighted(m.Loss, logits, violation, weight)
	}
}

// MiniBatch is a mini-batch of BFGPU with WeightsBatch.
type MiniBatch struct {
	Sequences []rewardmodel.Sequence
	Violation []bool // the labels of their bags
}

// Shuffled splits all instances into mini-batches of at most size, in random order by seed.
func (d *Data) Shuffled(size int, seed uint64) []MiniBatch {
	e := newEpoch(d, size)
	var out []MiniBatch
	for _, batch := range e.instanceBatches(rand.New(rand.NewPCG(seed, 0))) {
		out = append(out, MiniBatch{e.instancesOf(batch), e.violations(batch)})
	}
	return out
}

// LambdaPU estimates 1/pi_micro from the lengths of the bags.
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
	return m.loss(&Epoch{Network: Network{Data: d}}, batch).on(0)
}
