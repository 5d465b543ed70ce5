package train

import (
	"errors"
	"fmt"
	"math/rand/v2"
)

// Weights says over which instances the weight p(x) of the BFGPU loss is a softmax.
type Weights string

const (
	// WeightsBatch is the softmax of the logit of the violation over the unlabelled (resp. normal) instances of the
	// mini-batch, as in the authors' public code.
	WeightsBatch Weights = "batch"
	// WeightsPaper is the softmax of g_-1 over the instances of the same bag (the paper's p-hat).
	WeightsPaper Weights = "paper"
)

// BFGPU is the paper's method. Its zero value is not usable; start from DefaultBFGPU.
type BFGPU struct {
	Weights Weights
	Loss    LossKind
	// PULoss is the first stage of each epoch, the weighted loss over all instances. Without it (an ablation of the
	// paper, and a way to go on from a trained model) the scores for the pseudo labels are always computed anew.
	PULoss bool
	// PseudoLabels adds the second stage of each epoch: the witness of every violating bag as a violation, its least
	// anomalous instance as compliant.
	PseudoLabels bool
	// RecordDuring takes the scores that choose the pseudo labels from the training passes of the epoch, as the
	// authors' code does; otherwise the bags are scored anew after the first stage, as the paper says.
	RecordDuring bool
	// SigmaMicro is the number of normal instances for each anomalous one in a violating bag; 0 estimates it as the
	// mean length of the violating bags less one.
	SigmaMicro float64
}

// DefaultBFGPU follows the authors' public code.
func DefaultBFGPU() BFGPU {
	return BFGPU{Weights: WeightsBatch, Loss: CrossEntropy, PULoss: true, PseudoLabels: true, RecordDuring: true}
}

// Name is "bfgpu".
func (BFGPU) Name() string { return "bfgpu" }

// Validate names the setting that is out of range.
func (m BFGPU) Validate() error {
	switch {
	case m.Weights != WeightsBatch && m.Weights != WeightsPaper:
		return fmt.Errorf("train: weights is %q; use %s or %s", m.Weights, WeightsBatch, WeightsPaper)
	case m.Loss != CrossEntropy && m.Loss != Sigmoid:
		return fmt.Errorf("train: loss is %q; use %s or %s", m.Loss, CrossEntropy, Sigmoid)
	case !m.PULoss && !m.PseudoLabels:
		return errors.New("train: neither the PU loss nor pseudo labels are on; there is nothing to train with")
	case !(m.SigmaMicro >= 0):
		return fmt.Errorf("train: sigma_micro is %v; use 0 (estimate) or a positive number", m.SigmaMicro)
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
		steps += batchCount(2*len(e.violating), e.Batch)
	}
	return steps
}

// Epoch runs the weighted loss over all instances and then the plain loss over the pseudo labels, each if it is on.
func (m BFGPU) Epoch(e *Epoch) error {
	scores := e.blankScores()
	if m.PULoss {
		if err := m.puStage(e, scores); err != nil {
			return err
		}
	}
	if !m.PseudoLabels {
		return nil
	}
	if !m.PULoss || !m.RecordDuring {
		if err := e.score(e.violating, scores); err != nil {
			return err
		}
	}
	e.stage("pseudo-labels")
	refs, labels := pseudoLabels(e, scores)
	for _, part := range split(len(refs), e.Batch) {
		if err := e.step(refs[part.start:part.end], plain(m.Loss, labels[part.start:part.end])); err != nil {
			return err
		}
	}
	return nil
}

// puStage trains on all instances with the weighted loss and records their margins in scores.
func (m BFGPU) puStage(e *Epoch, scores [][]float64) error {
	e.stage("bfgpu")
	for _, batch := range m.batches(e, e.RNG) {
		loss := m.loss(e, batch)
		err := e.step(batch, func(logits [][2]float32) (float64, [][2]float32) {
			for i, r := range batch {
				scores[r.bag][r.instance] = margin(logits[i])
			}
			return loss(logits)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// batches deals the instances into mini-batches of e.Batch: single instances in random order, or whole bags in random
// order where the weights need them together.
func (m BFGPU) batches(e *Epoch, rng *rand.Rand) [][]ref {
	var batches [][]ref
	if m.Weights == WeightsPaper {
		var batch []ref
		for _, bag := range rng.Perm(len(e.Data.Bags)) {
			for k := range e.Data.Bags[bag].Instances {
				batch = append(batch, ref{bag, k})
			}
			if len(batch) >= e.Batch {
				batches, batch = append(batches, batch), nil
			}
		}
		if len(batch) > 0 {
			batches = append(batches, batch)
		}
		return batches
	}
	all := make([]ref, 0, len(e.Data.Bags))
	for bag, b := range e.Data.Bags {
		for k := range b.Instances {
			all = append(all, ref{bag, k})
		}
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, part := range split(len(all), e.Batch) {
		batches = append(batches, all[part.start:part.end])
	}
	return batches
}

// loss is lambda_bfgpu * R of Algorithm 1 for one mini-batch, lambda_bfgpu = 1/pi_micro.
func (m BFGPU) loss(e *Epoch, batch []ref) Loss {
	violation := make([]bool, len(batch))
	groups := map[int][]int{} // the instances that share a softmax
	var unlabelled, normal int
	for i, r := range batch {
		violation[i] = e.Data.Bags[r.bag].Violation
		key := r.bag
		if m.Weights == WeightsBatch {
			key = 0
			if violation[i] {
				key = 1
			}
		}
		groups[key] = append(groups[key], i)
		if violation[i] {
			unlabelled++
		} else {
			normal++
		}
	}
	lambda := (e.sigmaMicro(m.SigmaMicro) + 1) / e.sigmaMicro(m.SigmaMicro)
	return func(logits [][2]float32) (float64, [][2]float32) {
		weight := make([]float64, len(batch))
		for _, members := range groups {
			softmaxOver(weight, members, func(i int) float64 {
				if m.Weights == WeightsPaper {
					return sigmoid(margin(logits[i]))
				}
				return float64(logits[i][0])
			})
		}
		for i := range weight {
			weight[i] *= lambda
			if m.Weights == WeightsPaper { // 1/(2|P|) and 1/(2|U|); the code's weights sum to 1 per class and batch
				if violation[i] {
					weight[i] /= 2 * float64(unlabelled)
				} else {
					weight[i] /= 2 * float64(normal)
				}
			}
		}
		return weighted(m.Loss, logits, violation, weight)
	}
}

// pseudoLabels returns, in random order, the witness of every violating bag as a violation and its least anomalous
// instance as compliant. A bag of one instance has no normal one to give; a random instance of a compliant bag stands
// in for it, which keeps the set balanced as the paper asks.
func pseudoLabels(e *Epoch, scores [][]float64) ([]ref, []bool) {
	type labelled struct {
		ref
		violation bool
	}
	var all []labelled
	for _, bag := range e.violating {
		witness, least := 0, 0
		for k, s := range scores[bag] {
			if s > scores[bag][witness] {
				witness = k
			}
			if s < scores[bag][least] {
				least = k
			}
		}
		all = append(all, labelled{ref{bag, witness}, true})
		switch {
		case len(scores[bag]) > 1:
			all = append(all, labelled{ref{bag, least}, false})
		case len(e.compliant) > 0:
			other := e.compliant[e.RNG.IntN(len(e.compliant))]
			all = append(all, labelled{ref{other, e.RNG.IntN(len(e.Data.Bags[other].Instances))}, false})
		}
	}
	e.RNG.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	refs, labels := make([]ref, len(all)), make([]bool, len(all))
	for i, l := range all {
		refs[i], labels[i] = l.ref, l.violation
	}
	return refs, labels
}
