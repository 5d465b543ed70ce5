package train

import (
	"math"

	"assay/rewardmodel/logistic"
)

// RobustPU is self-paced PU learning (Zhu et al., 2023): before each epoch every instance is weighted by how easy it
// is under the label it is taken for (unlabelled as anomalous), with the Welsch function exp(-loss/h^2) of a threshold
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

// Epoch weighs all instances and trains on them in random order.
func (m RobustPU) Epoch(e *Epoch) error {
	margins, err := e.Margins(e.All())
	if err != nil {
		return err
	}
	h := min(0.1+(2-0.1)/10*float64(e.Number), 2)
	scores := e.blankScores()
	e.stage(m.Name())
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
