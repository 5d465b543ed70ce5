package baseline

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"assay/rewardmodel/train"
)

// sphereEps keeps the inverse distance of an anomaly and the logarithm finite.
const sphereEps = 1e-6

// sphere is the fixed center around which one-class methods cluster the features of normal units.
type sphere struct {
	center []float64
}

// fix sets the center to the mean of features, each of width elements.
func (s *sphere) fix(features [][]float32, width int) {
	s.center = make([]float64, width)
	for _, row := range features {
		for j, v := range row {
			s.center[j] += float64(v) / float64(len(features))
		}
	}
}

// fixInstances sets the center to the mean feature of all instances of the given bags.
func (s *sphere) fixInstances(e *train.Epoch, bags []int, width int) error {
	rows, err := e.Features(bags)
	if err != nil {
		return err
	}
	s.fix(slices.Concat(rows...), width)
	return nil
}

// loss is the mean over a mini-batch of value(i, d), d being the squared distance of unit i plus sphereEps. slope is
// the derivative with respect to d.
func (s *sphere) loss(features [][]float32, of func(i int, d float64) (value, slope float64)) (float64, [][]float32) {
	var total float64
	n := float64(len(features))
	grads := make([][]float32, len(features))
	for i, row := range features {
		value, slope := of(i, s.distance(row))
		total += value / n
		grads[i] = make([]float32, len(row))
		for j, v := range row {
			grads[i][j] = float32(2 * slope / n * (float64(v) - s.center[j]))
		}
	}
	return total, grads
}

func (s *sphere) distance(feature []float32) float64 {
	d := sphereEps
	for j, v := range feature {
		d += (float64(v) - s.center[j]) * (float64(v) - s.center[j])
	}
	return d
}

// margin is the logarithm of the ratio of the squared distance to that of an undecided unit. It preserves the order of
// the distances, which are too large for a sigmoid.
func (s *sphere) margin(feature []float32, undecided float64) float64 {
	return math.Log(s.distance(feature) / undecided)
}

// scoreInstances scores every bag of n by its farthest instance.
func (s *sphere) scoreInstances(n *train.Network, undecided float64) ([]train.Score, error) {
	if s.center == nil {
		return nil, ErrUntrained
	}
	features, err := n.Features(n.All())
	if err != nil {
		return nil, err
	}
	scores := make([]train.Score, len(features))
	for i, rows := range features {
		scores[i].Bag = math.Inf(-1)
		for _, row := range rows {
			m := s.margin(row, undecided)
			scores[i].Instances = append(scores[i].Instances, m)
			scores[i].Bag = max(scores[i].Bag, m)
		}
	}
	return scores, nil
}

// MarshalBinary returns the center.
func (s *sphere) MarshalBinary() ([]byte, error) {
	return binary.Append(nil, binary.LittleEndian, s.center)
}

// UnmarshalBinary restores what MarshalBinary returned.
func (s *sphere) UnmarshalBinary(data []byte) error {
	if len(data) == 0 || len(data)%8 != 0 {
		return fmt.Errorf("baseline: the center of %d bytes is damaged; remove the state to start from scratch", len(data))
	}
	s.center = make([]float64, len(data)/8)
	_, err := binary.Decode(data, binary.LittleEndian, s.center)
	return err
}

// SVDD is one-class DeepSVDD (Ruff et al., "Deep One-Class Classification", ICML 2018) on instances: the features of
// the instances of compliant bags are pulled to a fixed center, their mean before training; the violating bags are
// not used. The loss is the mean squared distance, as in the BFGPU authors' public code. That code also averages the
// violating bags' instances into the center, and includes them in the mini-batches with a loss of zero, so that a step has fewer
// normal ones.
type SVDD struct {
	sphere
}

// Name is "svdd".
func (*SVDD) Name() string { return "svdd" }

// Validate returns nil.
func (*SVDD) Validate() error { return nil }

// Threshold flags as many training instances, out of all of them, as there are violating bags, as the public code does.
func (*SVDD) Threshold() train.Threshold { return train.Quantile }

// Begin fixes the center.
func (m *SVDD) Begin(e *train.Epoch, width int) error {
	_, compliant := byLabel(e.Data)
	return m.fixInstances(e, compliant, width)
}

// Steps is the number of mini-batches of an epoch, each of Batch instances.
func (*SVDD) Steps(e *train.Epoch) int {
	_, _, _, normal := e.Data.Counts()
	return batchCount(normal, e)
}

// Epoch trains on the instances of the compliant bags in random order.
func (m *SVDD) Epoch(e *train.Epoch) error {
	e.Stage(m.Name())
	_, compliant := byLabel(e.Data)
	for _, batch := range instanceBatches(e, compliant) {
		if err := e.StepFeatures(instances(e, batch), m.loss); err != nil {
			return err
		}
	}
	return nil
}

func (m *SVDD) loss(features [][]float32, _ float64) (float64, [][]float32) {
	return m.sphere.loss(features, func(_ int, d float64) (value, slope float64) { return d, 1 })
}

// Score scores each bag by the distance of its farthest instance. A margin of 0 is a distance of 1.
func (m *SVDD) Score(n *train.Network) ([]train.Score, error) { return m.scoreInstances(n, 1) }
