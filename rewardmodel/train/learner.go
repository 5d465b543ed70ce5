package train

import (
	"errors"

	"assay/rewardmodel"
)

// Loss maps the logits of a mini-batch, [sequences][2*aspects] with the violation before compliance for each aspect, to
// the value of the loss and its gradient with respect to each logit. Weights inside a loss that depend on the logits are
// constants for the gradient.
type Loss func(logits [][]float32) (value float64, grad [][]float32)

// FeatureLoss is a Loss on features: the network's last hidden state of each sequence's first token, one row of
// hidden size per sequence. It does not use the classifier of the network.
type FeatureLoss func(features [][]float32) (value float64, grad [][]float32)

// ErrNotFinite is wrapped by the errors of a Learner whose outputs are NaN or infinite.
var ErrNotFinite = errors.New("not a finite number")

// Learner is a network in training.
type Learner interface {
	// Step takes one optimizer step with learning rate lr on a mini-batch and returns the value of the loss;
	// StepFeatures does so for a loss on features.
	Step(batch []rewardmodel.Sequence, lr float64, loss Loss) (float64, error)
	StepFeatures(batch []rewardmodel.Sequence, lr float64, loss FeatureLoss) (float64, error)
	// Logits scores sequences with the current weights, in evaluation mode; Features gives their features.
	Logits(batch []rewardmodel.Sequence) ([][]float32, error)
	Features(batch []rewardmodel.Sequence) ([][]float32, error)
	// SaveState writes the weights and the optimizer's state to a new file, LoadState restores them, so that
	// training resumes as if it had not stopped.
	SaveState(file string) error
	LoadState(file string) error
}

// pairLoss is a Loss of one aspect.
type pairLoss func(logits [][2]float32) (value float64, grad [][2]float32)

func (f pairLoss) rows(logits [][]float32) (float64, [][]float32) {
	value, grads := f(pairs(logits))
	rows := make([][]float32, len(grads))
	for i := range grads {
		rows[i] = grads[i][:]
	}
	return value, rows
}

// pairs are the logits of the first aspect.
func pairs(rows [][]float32) [][2]float32 {
	z := make([][2]float32, len(rows))
	for i, row := range rows {
		if len(row) > 1 {
			z[i] = [2]float32(row)
		}
	}
	return z
}

func sequences(ids [][]int32) []rewardmodel.Sequence {
	out := make([]rewardmodel.Sequence, len(ids))
	for i := range ids {
		out[i].IDs = ids[i]
	}
	return out
}
