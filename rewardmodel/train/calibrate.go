package train

import (
	"errors"
	"math"
	"slices"

	"assay/rewardmodel/logistic"
)

// errCalibrate reports that the scores do not separate the labels.
var errCalibrate = errors.New("train: the margins cannot be calibrated: violating bags do not score higher than compliant ones")

// calibrate rescales the margins so that the sigmoid of a bag's largest one is a probability of the bag's label, by
// logistic regression on the training bags (Platt, 1999). The order of all scores does not change. Losses that saturate,
// such as Sigmoid, result in margins whose sigmoid is close to 0 or 1. scores are rescaled in place.
func calibrate(d *Data, scores []Score, rescale func(scale, shift float64) error) error {
	margins, labels := make([]float64, len(scores)), make([]bool, len(scores))
	for i, b := range d.Bags {
		margins[i], labels[i] = slices.Max(scores[i].Instances), b.Violation
	}
	scale, shift, err := platt(margins, labels)
	if err != nil {
		return err
	}
	for i, s := range scores {
		for k := range s.Instances {
			s.Instances[k] = scale*s.Instances[k] + shift
		}
		scores[i].Bag = scale*s.Bag + shift
	}
	return rescale(scale, shift)
}

// platt returns the scale and shift that maximize the likelihood of the labels under sigmoid(scale*margin + shift),
// by Newton's method with step halving. The labels are smoothed as Platt does, so that the optimum is finite.
func platt(margins []float64, labels []bool) (scale, shift float64, err error) {
	var positive, negative float64
	for _, l := range labels {
		if l {
			positive++
		} else {
			negative++
		}
	}
	target := func(i int) float64 {
		if labels[i] {
			return (positive + 1) / (positive + 2)
		}
		return 1 / (negative + 2)
	}
	loss := func(scale, shift float64) (sum float64) {
		for i, m := range margins {
			z := scale*m + shift
			sum += logistic.Softplus(z) - target(i)*z
		}
		return sum
	}
	scale, shift = 0, math.Log((positive+1)/(negative+1))
	best := loss(scale, shift)
	for range 100 {
		var g0, g1, h00, h01, h11 float64
		for i, m := range margins {
			p := logistic.Sigmoid(scale*m + shift)
			d, w := p-target(i), p*(1-p)
			g0, g1 = g0+d*m, g1+d
			h00, h01, h11 = h00+w*m*m, h01+w*m, h11+w
		}
		h00, h11 = h00+1e-9, h11+1e-9
		det := h00*h11 - h01*h01
		if !(det > 0) {
			break
		}
		d0, d1 := (h11*g0-h01*g1)/det, (h00*g1-h01*g0)/det
		step := 1.0
		for step > 1e-6 && !(loss(scale-step*d0, shift-step*d1) < best) {
			step /= 2
		}
		next := loss(scale-step*d0, shift-step*d1)
		if !(next < best-1e-9*math.Abs(best)) {
			break
		}
		scale, shift, best = scale-step*d0, shift-step*d1, next
	}
	if !(scale > 0) || math.IsInf(scale, 0) || math.IsNaN(shift) || math.IsInf(shift, 0) {
		return 0, 0, errCalibrate
	}
	return scale, shift, nil
}
