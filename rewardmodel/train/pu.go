package train

import (
	"fmt"
	"math"

	"assay/rewardmodel/logistic"
)

// PURisk is an estimator of the risk of a classifier of instances from normal (positive) and unlabeled ones.
type PURisk string

// The estimators that the paper compares with. g is the margin toward normal and pi the share of normal instances
// among the unlabeled ones.
const (
	// UPU is the unbiased estimator (du Plessis, Niu and Sugiyama, 2015) with the logistic loss l(z) = log(1+exp(-z)):
	// pi E_P[l(g)] + E_U[l(-g)] - pi E_P[l(-g)].
	UPU PURisk = "upu"
	// NNPU is the non-negative one (Kiryo et al., 2017): where E_U[l(-g)] - pi E_P[l(-g)] falls below beta = 0, the
	// step only increases that part, gamma = 1.
	NNPU PURisk = "nnpu"
	// BalancedPU (Su, Chen and Xu, 2021) estimates the balanced risk with the sigmoid loss l(z) = 1/(1+exp(z)), which
	// leaves -E_P[l(-g)] + E_U[l(-g)] up to constants, with the non-negative correction as in the authors' code.
	BalancedPU PURisk = "balancedpu"
)

// PU is micro-level PU learning: instances of compliant bags are labeled normal, those of violating bags are
// unlabeled.
type PU struct {
	Risk PURisk
	// PseudoLabels adds the second stage of BFGPU to each epoch.
	PseudoLabels bool
	SigmaMicro   float64 // as in BFGPU
}

// Name is that of the risk.
func (m PU) Name() string { return string(m.Risk) }

// Validate returns an error that names the setting that is out of range.
func (m PU) Validate() error {
	switch m.Risk {
	case UPU, NNPU, BalancedPU:
	default:
		return fmt.Errorf("train: PU risk is %q; use %s, %s or %s", m.Risk, UPU, NNPU, BalancedPU)
	}
	if !(m.SigmaMicro >= 0) {
		return fmt.Errorf("train: sigma_micro is %v; use 0 (estimate) or a positive number", m.SigmaMicro)
	}
	return nil
}

// Threshold is 0.5: PU learning decides by the sign of g.
func (PU) Threshold() Threshold { return Fixed }

// Score takes the witness of each bag.
func (PU) Score(n *Network) ([]Score, error) { return scoreInstances(n) }

// Steps is the number of mini-batches of an epoch.
func (m PU) Steps(e *Epoch) int {
	steps := batchCount(e.instanceCount(), e.Batch)
	if m.PseudoLabels {
		steps += pseudoSteps(e)
	}
	return steps
}

// Epoch trains on all instances in random order.
func (m PU) Epoch(e *Epoch) error {
	scores := e.blankScores()
	e.Stage(m.Name())
	for _, batch := range e.instanceBatches(e.RNG) {
		if err := e.step(e.instancesOf(batch), record(scores, batch, m.loss(e, batch))); err != nil {
			return err
		}
	}
	if !m.PseudoLabels {
		return nil
	}
	return pseudoStage(e, scores, CrossEntropy, 0)
}

// loss is the estimated risk of one mini-batch. A class without instances in the mini-batch contributes nothing.
func (m PU) loss(e *Epoch, batch []ref) aspectLoss {
	pi := e.pi(m.SigmaMicro)
	unlabeled := e.violations(batch)
	var nU, nP float64
	for _, u := range unlabeled {
		if u {
			nU++
		} else {
			nP++
		}
	}
	return func(logits [][2]float32) (float64, [][2]float32) {
		// The risk is a sum of l(±g) over instances; each part has a weight, whose sign specifies the label it favors.
		kind := CrossEntropy
		if m.Risk == BalancedPU {
			kind = Sigmoid
		}
		value := func(i int, violation bool) float64 { v, _ := kind.of(logits[i], violation); return v }
		var negative float64 // E_U[l(-g)] - pi E_P[l(-g)], the estimated risk on anomalous instances
		for i, u := range unlabeled {
			if u {
				negative += value(i, true) / nU
			} else {
				negative -= pi * value(i, true) / nP
			}
		}
		toViolation, toNormal := make([]float64, len(batch)), make([]float64, len(batch))
		corrected := m.Risk == NNPU && negative < 0 || m.Risk == BalancedPU && !(negative > 0)
		for i, u := range unlabeled {
			switch {
			case corrected && u:
				toViolation[i] = -1 / nU
			case corrected:
				toViolation[i] = pi / nP
			case u:
				toViolation[i] = 1 / nU
			case m.Risk == BalancedPU:
				toViolation[i] = -1 / nP
			default:
				toViolation[i], toNormal[i] = -pi/nP, pi/nP
			}
		}
		return labeled(kind, logits, toViolation, toNormal)
	}
}

// violations returns, for each instance of a mini-batch, whether it is in a violating bag.
func (e *Epoch) violations(batch []ref) []bool {
	out := make([]bool, len(batch))
	for i, r := range batch {
		out[i] = e.Data.Bags[r.bag].Violation
	}
	return out
}

// RobustPU is self-paced PU learning (Zhu et al., 2023): before each epoch every instance is weighted by how easy it
// is under its assumed label (unlabeled as anomalous), with the Welsch function exp(-loss/h^2) of a threshold
// h that grows from 0.1 to 2 in ten steps.
type RobustPU struct {
	PseudoLabels bool
}

// Name is "robustpu".
func (RobustPU) Name() string { return "robustpu" }

// Validate returns nil.
func (RobustPU) Validate() error { return nil }

// Threshold is 0.5.
func (RobustPU) Threshold() Threshold { return Fixed }

// Score takes the witness of each bag.
func (RobustPU) Score(n *Network) ([]Score, error) { return scoreInstances(n) }

// Steps is the number of mini-batches of an epoch.
func (m RobustPU) Steps(e *Epoch) int { return PU{PseudoLabels: m.PseudoLabels}.Steps(e) }

// Epoch weights all instances and trains on them in random order.
func (m RobustPU) Epoch(e *Epoch) error {
	margins, err := e.Margins(e.All())
	if err != nil {
		return err
	}
	h := min(0.1+(2-0.1)/10*float64(e.Number), 2)
	scores := e.blankScores()
	e.Stage(m.Name())
	for _, batch := range e.instanceBatches(e.RNG) {
		violation, weight := e.violations(batch), make([]float64, len(batch))
		for i, r := range batch {
			g := margins[r.bag][r.instance]
			if !violation[i] {
				g = -g
			}
			weight[i] = math.Exp(-logistic.Softplus(-g)/(h*h)) / float64(len(batch))
		}
		loss := func(logits [][2]float32) (float64, [][2]float32) {
			return weighted(CrossEntropy, logits, violation, weight)
		}
		if err := e.step(e.instancesOf(batch), record(scores, batch, loss)); err != nil {
			return err
		}
	}
	if !m.PseudoLabels {
		return nil
	}
	return pseudoStage(e, scores, CrossEntropy, 0)
}
