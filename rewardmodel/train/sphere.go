package train

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrUntrained reports that a method has to be trained before it can score.
var ErrUntrained = errors.New("train: the method has not been trained")

// sphereEps keeps the inverse distance of an anomaly and the logarithm finite.
const sphereEps = 1e-6

// sphere is the fixed centre around which one-class methods cluster the features of normal units.
type sphere struct {
	centre []float64
}

// fix puts the centre at the mean of features, each of width elements.
func (s *sphere) fix(features [][]float32, width int) {
	s.centre = make([]float64, width)
	for _, row := range features {
		for j, v := range row {
			s.centre[j] += float64(v) / float64(len(features))
		}
	}
}

// fixInstances puts the centre at the mean feature of all instances of the given bags.
func (s *sphere) fixInstances(e *Epoch, bags []int, width int) error {
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
			grads[i][j] = float32(2 * slope / n * (float64(v) - s.centre[j]))
		}
	}
	return total, grads
}

func (s *sphere) distance(feature []float32) float64 {
	d := sphereEps
	for j, v := range feature {
		d += (float64(v) - s.centre[j]) * (float64(v) - s.centre[j])
	}
	return d
}

// margin is the logarithm of the squared distance over that of an undecided unit. It keeps the order of the distances,
// whose own size would saturate every sigmoid.
func (s *sphere) margin(feature []float32, undecided float64) float64 {
	return math.Log(s.distance(feature) / undecided)
}

// scoreInstances scores every bag of n by its farthest instance.
func (s *sphere) scoreInstances(n *Network, undecided float64) ([]Score, error) {
	if s.centre == nil {
		return nil, ErrUntrained
	}
	features, err := n.Features(n.All())
	if err != nil {
		return nil, err
	}
	scores := make([]Score, len(features))
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

// MarshalBinary returns the centre.
func (s *sphere) MarshalBinary() ([]byte, error) {
	return binary.Append(nil, binary.LittleEndian, s.centre)
}

// UnmarshalBinary restores what MarshalBinary returned.
func (s *sphere) UnmarshalBinary(data []byte) error {
	if len(data) == 0 || len(data)%8 != 0 {
		return fmt.Errorf("train: a centre of %d bytes is damaged; remove the state to start from scratch", len(data))
	}
	s.centre = make([]float64, len(data)/8)
	_, err := binary.Decode(data, binary.LittleEndian, s.centre)
	return err
}
