package train

import "math/rand/v2"

// SVDD is one-class DeepSVDD (Ruff et al., "Deep One-Class Classification", ICML 2018) on instances: the features of
// the instances of compliant bags are pulled to a fixed centre, their mean before training; the violating bags are
// not used. The loss is the mean squared distance, as in the BFGPU authors' public code. That code also averages the
// violating bags' instances into the centre, and deals them into the mini-batches with a loss of zero, so that fewer
// normal ones share a step.
type SVDD struct {
	sphere
}

// Name is "svdd".
func (*SVDD) Name() string { return "svdd" }

// Validate returns nil.
func (*SVDD) Validate() error { return nil }

// Threshold flags as many training instances, out of all of them, as there are violating bags, as the public code does.
func (*SVDD) Threshold() Threshold { return Quantile }

// Begin fixes the centre.
func (m *SVDD) Begin(e *Epoch, width int) error {
	return m.fixInstances(e, e.compliant, width)
}

// Steps is the number of mini-batches of an epoch, each of Batch instances.
func (*SVDD) Steps(e *Epoch) int {
	_, _, _, normal := e.Data.Counts()
	return batchCount(normal, e.Batch)
}

// Epoch trains on the instances of the compliant bags in random order.
func (m *SVDD) Epoch(e *Epoch) error {
	e.stage(m.Name())
	for _, batch := range m.batches(e, e.RNG) {
		if err := e.stepFeatures(e.instancesOf(batch), m.loss); err != nil {
			return err
		}
	}
	return nil
}

func (*SVDD) batches(e *Epoch, rng *rand.Rand) [][]ref {
	normal, _ := e.members(e.compliant)
	rng.Shuffle(len(normal), func(i, j int) { normal[i], normal[j] = normal[j], normal[i] })
	var batches [][]ref
	for _, part := range split(len(normal), e.Batch) {
		batches = append(batches, normal[part.start:part.end])
	}
	return batches
}

func (m *SVDD) loss(features [][]float32, _ float64) (float64, [][]float32) {
	return m.sphere.loss(features, func(_ int, d float64) (value, slope float64) { return d, 1 })
}

// Score takes the distance of the farthest instance of each bag. A margin of 0 is a distance of 1.
func (m *SVDD) Score(n *Network) ([]Score, error) { return m.scoreInstances(n, 1) }
