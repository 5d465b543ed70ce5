package train

import (
	"errors"

	"assay/rewardmodel"
)

// Loss maps the logits of a mini-batch, [sequences][2*aspects] with the violation before compliance for each aspect, to
// the value of the loss and its gradient with respect to each logit. Weights in a loss that depend on the logits are
// constants for the gradient.
type Loss func(logits [][]float32) (value float64, grad [][]float32)

// FeatureLoss is a Loss on features: the network's last hidden state of each sequence's first token, one row of
// hidden size per sequence. It does not use the classifier of the network.
type FeatureLoss func(features [][]float32) (value float64, grad [][]float32)

// ErrNotFinite is wrapped by the errors of a Learner whose outputs are NaN or infinite.
var ErrNotFinite = errors.New("non-finite value")

// Learner is a network in training. Sequences are token ids with their special tokens.
type Learner interface {
	// Step takes one optimizer step with learning rate lr on a mini-batch and returns the value of the loss;
	// StepFeatures does so for a loss on features.
	Step(batch []rewardmodel.Sequence, lr float64, loss Loss) (float64, error)
	StepFeatures(batch []rewardmodel.Sequence, lr float64, loss FeatureLoss) (float64, error)
	// Logits scores sequences with the current weights, in evaluation mode, as the rows of a Loss; Features gives their
	// features.
	Logits(batch []rewardmodel.Sequence) ([][]float32, error)
	Features(batch []rewardmodel.Sequence) ([][]float32, error)
	// SaveState writes the weights and the optimizer's state to a new file, LoadState restores them, so that
	// a resumed run is identical to an uninterrupted one.
	SaveState(file string) error
	LoadState(file string) error
}

// aspectLoss is a Loss on the logits of one aspect, violation first.
type aspectLoss func(logits [][2]float32) (value float64, grad [][2]float32)

// on is the loss on rows with the logits of all aspects; the gradient of the others is 0.
func (loss aspectLoss) on(aspect int) Loss {
	return func(logits [][]float32) (float64, [][]float32) {
		value, own := loss(pairsOf(logits, aspect))
		grad := make([][]float32, len(logits))
		for i, row := range logits {
			grad[i] = make([]float32, len(row))
			copy(grad[i][2*aspect:], own[i][:])
		}
		return value, grad
	}
}

// pairsOf returns the logits of one aspect.
func pairsOf(logits [][]float32, aspect int) [][2]float32 {
	out := make([][2]float32, len(logits))
	for i, row := range logits {
		out[i] = [2]float32(row[2*aspect:])
	}
	return out
}

// trainee is what an Epoch trains and a Network scores: the part of a Learner that is one aspect's.
type trainee interface {
	step(batch []rewardmodel.Sequence, lr float64, loss aspectLoss) (float64, error)
	stepFeatures(batch []rewardmodel.Sequence, lr float64, loss FeatureLoss) (float64, error)
	logits(batch []rewardmodel.Sequence) ([][2]float32, error)
	features(batch []rewardmodel.Sequence) ([][]float32, error)
}

// aspectLearner is one aspect of a learner.
type aspectLearner struct {
	learner Learner
	aspect  int
}

func (l aspectLearner) step(batch []rewardmodel.Sequence, lr float64, loss aspectLoss) (float64, error) {
	return l.learner.Step(batch, lr, loss.on(l.aspect))
}

func (l aspectLearner) stepFeatures(batch []rewardmodel.Sequence, lr float64, loss FeatureLoss) (float64, error) {
	return l.learner.StepFeatures(batch, lr, loss)
}

func (l aspectLearner) logits(batch []rewardmodel.Sequence) ([][2]float32, error) {
	rows, err := l.learner.Logits(batch)
	if err != nil {
		return nil, err
	}
	return pairsOf(rows, l.aspect), nil
}

func (l aspectLearner) features(batch []rewardmodel.Sequence) ([][]float32, error) {
	return l.learner.Features(batch)
}
