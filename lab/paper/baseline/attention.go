package baseline

import (
	"math"
	"math/rand/v2"

	"assay/rewardmodel/logistic"
	"assay/rewardmodel/train"
)

// attentionUnits is the number of rows of V, as in Ilse et al.'s experiments and public code.
const attentionUnits = 128

// Attention is attention-based multiple instance learning (Ilse, Tomczak and Welling, "Attention-based Deep Multiple
// Instance Learning", ICML 2018), equations 7 and 8: a bag is the mean of its instances' features, weighted by
// a_k = softmax_k(w' tanh(V h_k)), and a linear classifier with two logits is trained with the cross-entropy of the bag's label.
//
// The file of that name in the BFGPU authors' public code differs: it weights the probabilities of the
// network's own classifier by dot-product attention among the instances of a class in a mini-batch, whatever their
// bags, and decides at 0.5 for each instance. We follow the cited source.
type Attention struct {
	head
	v          *dense
	w          *block
	classifier *dense
}

// Name is "mil-attention".
func (*Attention) Name() string { return "mil-attention" }

// Validate returns nil.
func (*Attention) Validate() error { return nil }

// Threshold is 0.5.
func (*Attention) Threshold() train.Threshold { return train.Fixed }

// Begin initializes the parameters at random.
func (m *Attention) Begin(e *train.Epoch, width int) error {
	m.build(width, e.RNG)
	return nil
}

func (m *Attention) build(width int, rng *rand.Rand) {
	m.head = head{width: width, rng: rng}
	m.v = &dense{in: width, weight: m.block(attentionUnits*width, width)}
	m.w = m.block(attentionUnits, attentionUnits)
	m.classifier = m.dense(width, 2, width)
}

// UnmarshalBinary restores what MarshalBinary returned.
func (m *Attention) UnmarshalBinary(data []byte) error { return m.load(data, m.build) }

// Steps is the number of mini-batches of an epoch.
func (*Attention) Steps(e *train.Epoch) int { return bagSteps(e) }

// Epoch trains on all bags in random order.
func (m *Attention) Epoch(e *train.Epoch) error {
	e.Stage(m.Name())
	return epochOfBags(e, &m.head, m.learn)
}

// Score returns the margin of each bag. The key instance, the one with the largest attention, has the margin of its bag;
// that of another instance is lower by the logarithm of the ratio of their attentions. So instances of a bag are ordered
// by attention, the largest is the bag's score, and instances of different bags are comparable.
func (m *Attention) Score(n *train.Network) ([]train.Score, error) {
	return scoreByFeatures(n, &m.head, m.scoreBag)
}

// attention returns tanh(V h_k) and a_k of each instance.
func (m *Attention) attention(features [][]float64) (hidden [][]float64, weights []float64) {
	scores := make([]float64, len(features))
	hidden = make([][]float64, len(features))
	for k, h := range features {
		hidden[k] = tanhs(m.v.forward(h))
		scores[k] = dot(m.w.value, hidden[k])
	}
	return hidden, softmax(scores)
}

func (m *Attention) pool(features [][]float64, weights []float64) []float64 {
	pooled := make([]float64, m.width)
	for k, a := range weights {
		axpy(a, features[k], pooled)
	}
	return pooled
}

func (m *Attention) learn(features [][]float64, violation bool, scale float64, grads [][]float64) float64 {
	hidden, weights := m.attention(features)
	pooled := m.pool(features, weights)
	logits := m.classifier.forward(pooled)
	value, slope := crossEntropy(logits[0]-logits[1], violation)

	gradPooled := make([]float64, m.width)
	m.classifier.backward(pooled, []float64{scale * slope, -scale * slope}, gradPooled)
	gradWeights, mean := make([]float64, len(weights)), 0.0
	for k, a := range weights {
		gradWeights[k] = dot(gradPooled, features[k])
		mean += a * gradWeights[k]
		axpy(a, gradPooled, grads[k])
	}
	for k, a := range weights {
		g := a * (gradWeights[k] - mean) // with respect to the score before the softmax
		axpy(g, hidden[k], m.w.grad)
		gradHidden := make([]float64, attentionUnits)
		for i, u := range hidden[k] {
			gradHidden[i] = g * m.w.value[i] * (1 - u*u)
		}
		m.v.backward(features[k], gradHidden, grads[k])
	}
	return scale * value
}

func (m *Attention) scoreBag(features [][]float64) train.Score {
	_, weights := m.attention(features)
	logits := m.classifier.forward(m.pool(features, weights))
	score := train.Score{Bag: logits[0] - logits[1], Instances: make([]float64, len(features))}
	var key float64
	for _, a := range weights {
		key = max(key, a)
	}
	for k, a := range weights {
		score.Instances[k] = score.Bag + math.Log(max(a, math.SmallestNonzeroFloat64)/key)
	}
	return score
}

// crossEntropy is the cross-entropy of a margin against the label, and its derivative with respect to the margin.
func crossEntropy(margin float64, violation bool) (value, slope float64) {
	if violation {
		return logistic.Softplus(-margin), -logistic.Sigmoid(-margin)
	}
	return logistic.Softplus(margin), logistic.Sigmoid(margin)
}
