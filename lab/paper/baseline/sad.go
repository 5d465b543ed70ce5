package baseline

import (
	"math"
	"slices"

	"assay/rewardmodel/train"
)

// sadEta weights the anomalous units of SAD, as the BFGPU authors' public code does by default (Ruff et al. take 1).
const sadEta = 5

// SAD is DeepSAD (Ruff et al., "Deep Semi-Supervised Anomaly Detection", ICLR 2020): the features of normal units are
// pulled to a fixed center and those of anomalous ones are pushed away by their inverse squared distance,
//
//	mean of  d  for a normal unit and  eta/d  for an anomalous one,  d = |h - c|^2 + 1e-6,
//
// with c the mean feature of all training units before training; there are no unlabeled units. The units are
// whole bags ("sad-macro") or instances, where those of violating bags count as anomalous ("sad-micro"); both as in
// the BFGPU authors' public code.
type SAD struct {
	Macro bool // whole bags

	sphere
}

// Name is "sad-macro" or "sad-micro".
func (m *SAD) Name() string {
	if m.Macro {
		return "sad-macro"
	}
	return "sad-micro"
}

// Validate returns nil.
func (*SAD) Validate() error { return nil }

// Threshold flags as many training units, out of all of them, as there are violating bags, as the public code does.
func (m *SAD) Threshold() train.Threshold {
	if m.Macro {
		return train.OnePerBag // the bag is the only unit
	}
	return train.Quantile
}

// Begin fixes the center.
func (m *SAD) Begin(e *train.Epoch, width int) error {
	if !m.Macro {
		return m.fixInstances(e, e.All(), width)
	}
	features, err := e.WholeFeatures(e.All())
	if err != nil {
		return err
	}
	m.fix(features, width)
	return nil
}

// Steps is the number of mini-batches of an epoch, each of Batch units.
func (m *SAD) Steps(e *train.Epoch) int {
	if m.Macro {
		return batchCount(len(e.Data.Bags), e)
	}
	return batchCount(instanceCount(e.Data), e)
}

// Epoch trains on all units in random order.
func (m *SAD) Epoch(e *train.Epoch) error {
	e.Stage(m.Name())
	if m.Macro {
		for bags := range slices.Chunk(e.RNG.Perm(len(e.Data.Bags)), e.Batch) {
			batch, anomalous := wholes(e, bags)
			if err := e.StepFeatures(batch, m.loss(anomalous)); err != nil {
				return err
			}
		}
		return nil
	}
	for _, batch := range instanceBatches(e, e.All()) {
		if err := e.StepFeatures(instances(e, batch), m.loss(violations(e.Data, batch))); err != nil {
			return err
		}
	}
	return nil
}

func (m *SAD) loss(anomalous []bool) func([][]float32, float64) (float64, [][]float32) {
	return func(features [][]float32, _ float64) (float64, [][]float32) {
		return m.sphere.loss(features, func(i int, d float64) (value, slope float64) {
			if anomalous[i] {
				return sadEta / d, -sadEta / (d * d)
			}
			return d, 1
		})
	}
}

// Score scores each bag by its distance, or by that of its farthest instance. A margin of 0 is the distance at which the
// loss of a unit is the same for both labels.
func (m *SAD) Score(n *train.Network) ([]train.Score, error) {
	undecided := math.Sqrt(sadEta)
	if !m.Macro {
		return m.scoreInstances(n, undecided)
	}
	if m.center == nil {
		return nil, ErrUntrained
	}
	features, err := n.WholeFeatures(n.All())
	if err != nil {
		return nil, err
	}
	scores := make([]train.Score, len(features))
	for i, row := range features {
		scores[i].Bag = m.margin(row, undecided)
	}
	return scores, nil
}
