package train

import "errors"

// Loss maps the logits of a mini-batch (violation first) to the value of the loss and its gradient with respect to
// each logit. Weights in a loss that depend on the logits are constants for the gradient.
type Loss func(logits [][2]float32) (value float64, grad [][2]float32)

// FeatureLoss is a Loss on features: the network's last hidden state of each sequence's first token, one row of
// hidden size per sequence. It does not use the classifier of the network.
type FeatureLoss func(features [][]float32) (value float64, grad [][]float32)

// ErrNotFinite is wrapped by the errors of a Learner whose outputs are NaN or infinite.
var ErrNotFinite = errors.New("non-finite value")

// Learner is a network in training. Sequences are token ids with their special tokens.
type Learner interface {
	// Step takes one optimizer step with learning rate lr on a mini-batch and returns the value of the loss;
	// StepFeatures does so for a loss on features.
	Step(batch [][]int32, lr float64, loss Loss) (float64, error)
	StepFeatures(batch [][]int32, lr float64, loss FeatureLoss) (float64, error)
	// Logits scores sequences with the current weights, in evaluation mode; Features returns their features.
	Logits(batch [][]int32) ([][2]float32, error)
	Features(batch [][]int32) ([][]float32, error)
	// SaveState writes the weights and the optimizer's state to a new file, LoadState restores them, so that
	// a resumed run is identical to an uninterrupted one.
	SaveState(file string) error
	LoadState(file string) error
}
