package train

import (
	"math"

	"assay/rewardmodel/logistic"
)

// LossKind is the loss L(g(x), y) of one instance.
type LossKind string

// The losses of an instance. CrossEntropy is what the authors' public code uses; Sigmoid is symmetric,
// L(t,+1) + L(t,-1) = 1, as the paper's theory asks (Assumption on L).
const (
	CrossEntropy LossKind = "cross-entropy"
	Sigmoid      LossKind = "sigmoid"
)

// of returns the loss of one instance with logits z against the label, and its gradient with respect to z.
func (k LossKind) of(z [2]float32, violation bool) (value float64, grad [2]float64) {
	m := float64(z[0]) - float64(z[1])
	if !violation {
		m = -m // the margin toward the label
	}
	wrong := logistic.Sigmoid(-m) // probability of the other label
	var d float64                 // derivative with respect to the margin toward the label
	switch k {
	case Sigmoid:
		value, d = wrong, -wrong*(1-wrong)
	default:
		value, d = logistic.Softplus(-m), -wrong
	}
	if !violation {
		d = -d
	}
	return value, [2]float64{d, -d}
}

// weighted is the sum over the batch of weight * loss.
func weighted(kind LossKind, logits [][2]float32, violation []bool, weight []float64) (float64, [][2]float32) {
	var total float64
	grads := make([][2]float32, len(logits))
	for i, z := range logits {
		value, g := kind.of(z, violation[i])
		total += weight[i] * value
		grads[i] = [2]float32{float32(weight[i] * g[0]), float32(weight[i] * g[1])}
	}
	return total, grads
}

// labeled is the sum over the batch of toViolation * loss against the violation + toNormal * loss against normal. A
// negative weight pushes away from the label.
func labeled(kind LossKind, logits [][2]float32, toViolation, toNormal []float64) (float64, [][2]float32) {
	var total float64
	grads := make([][2]float32, len(logits))
	for i, z := range logits {
		v, gv := kind.of(z, true)
		n, gn := kind.of(z, false)
		total += toViolation[i]*v + toNormal[i]*n
		for j := range grads[i] {
			grads[i][j] = float32(toViolation[i]*gv[j] + toNormal[i]*gn[j])
		}
	}
	return total, grads
}

// plain is lambda times the mean loss of a labeled mini-batch.
func plain(kind LossKind, violation []bool, lambda float64) aspectLoss {
	weight := make([]float64, len(violation))
	for i := range weight {
		weight[i] = lambda / float64(len(weight))
	}
	return func(logits [][2]float32) (float64, [][2]float32) {
		return weighted(kind, logits, violation, weight)
	}
}

// plus is the sum of a loss and weight times another.
func plus(loss aspectLoss, weight float64, other aspectLoss) aspectLoss {
	return func(logits [][2]float32) (float64, [][2]float32) {
		value, grads := loss(logits)
		more, toAdd := other(logits)
		for i := range grads {
			for j := range grads[i] {
				grads[i][j] += float32(weight) * toAdd[i][j]
			}
		}
		return value + weight*more, grads
	}
}

// softmaxOver writes to out the softmax of score over the given members.
func softmaxOver(out []float64, members []int, score func(i int) float64) {
	top := math.Inf(-1)
	for _, i := range members {
		top = max(top, score(i))
	}
	var sum float64
	for _, i := range members {
		out[i] = math.Exp(score(i) - top)
		sum += out[i]
	}
	for _, i := range members {
		out[i] /= sum
	}
}

func margin(z [2]float32) float64 { return float64(z[0]) - float64(z[1]) }
