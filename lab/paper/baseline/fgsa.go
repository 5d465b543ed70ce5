package baseline

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"assay/rewardmodel/logistic"
	"assay/rewardmodel/train"
)

// The sizes of Angelidis and Lapata's experiments.
const (
	fgsaHidden    = 50  // of the GRU in each direction
	fgsaAttention = 100 // of the attention vector
)

// FGSA is the multiple instance learning network for fine-grained sentiment analysis, MILNET (Angelidis and Lapata,
// TACL 2018): a softmax classifier returns p_k of each segment; the attention a_k comes from a bidirectional GRU over the
// segments g_k, a_k = softmax_k(u' tanh(W g_k + b)); a document is the mixture sum_k a_k p_k, trained with the negative log
// likelihood of its label. The segments' vectors are the network's features in place of the source's convolutions.
//
// The file of that name in the BFGPU authors' public code differs: it weights the cross-entropy of the
// network's own classifier by dot-product attention among the instances of a class in a mini-batch, whatever their
// bags. We follow the cited source.
type FGSA struct {
	head
	hidden, attention int // of smaller networks in tests; 0 means the source's

	classifier        *dense
	forward, backward *gru
	outer             *dense
	u                 *block
}

// Name is "mil-fgsa".
func (*FGSA) Name() string { return "mil-fgsa" }

// Validate returns nil.
func (*FGSA) Validate() error { return nil }

// Threshold is 0.5.
func (*FGSA) Threshold() train.Threshold { return train.Fixed }

// Begin initializes the parameters at random.
func (m *FGSA) Begin(e *train.Epoch, width int) error {
	m.build(width, e.RNG)
	return nil
}

func (m *FGSA) build(width int, rng *rand.Rand) {
	hidden, attention := cmp.Or(m.hidden, fgsaHidden), cmp.Or(m.attention, fgsaAttention)
	m.head = head{width: width, rng: rng}
	m.classifier = m.dense(width, 2, width)
	m.forward, m.backward = m.gru(width, hidden), m.gru(width, hidden)
	m.outer = m.dense(2*hidden, attention, 2*hidden)
	m.u = m.block(attention, attention)
}

// UnmarshalBinary restores what MarshalBinary returned.
func (m *FGSA) UnmarshalBinary(data []byte) error { return m.load(data, m.build) }

// Steps is the number of mini-batches of an epoch.
func (*FGSA) Steps(e *train.Epoch) int { return bagSteps(e) }

// Epoch trains on all bags in random order.
func (m *FGSA) Epoch(e *train.Epoch) error {
	e.Stage(m.Name())
	return epochOfBags(e, &m.head, m.learn)
}

// Score returns the log odds of each bag's mixture. The score of an instance expresses its gated polarity (a_k times the
// difference of its two probabilities, as in the publication) as the log odds that the bag would have if the other
// instances were undecided; the polarity of a bag is the sum of those of its instances.
func (m *FGSA) Score(n *train.Network) ([]train.Score, error) {
	return scoreByFeatures(n, &m.head, m.scoreBag)
}

// fgsaPass has the values of a bag's forward pass that the backward pass needs.
type fgsaPass struct {
	margins, attention []float64   // of each segment
	states, outer      [][]float64 // both directions concatenated, and tanh(W g_k + b)
	ahead, back        []gruStep
}

func (m *FGSA) pass(features [][]float64) fgsaPass {
	var p fgsaPass
	var ahead, back [][]float64
	ahead, p.ahead = m.forward.forward(features)
	back, p.back = m.backward.forward(reversed(features))
	scores := make([]float64, len(features))
	for k, h := range features {
		logits := m.classifier.forward(h)
		p.margins = append(p.margins, logits[0]-logits[1])
		state := slices.Concat(ahead[k], back[len(back)-1-k])
		outer := tanhs(m.outer.forward(state))
		p.states, p.outer = append(p.states, state), append(p.outer, outer)
		scores[k] = dot(m.u.value, outer)
	}
	p.attention = softmax(scores)
	return p
}

// likelihood returns the logarithm of each a_k p_k for a label, and the logarithm of their sum.
func (p fgsaPass) likelihood(violation bool) (parts []float64, sum float64) {
	for k, margin := range p.margins {
		loss, _ := crossEntropy(margin, violation)
		parts = append(parts, math.Log(p.attention[k])-loss)
	}
	return parts, logSum(parts...)
}

func (m *FGSA) learn(features [][]float64, violation bool, scale float64, grads [][]float64) float64 {
	p := m.pass(features)
	parts, sum := p.likelihood(violation)
	n, size := len(features), m.forward.hidden
	gradAhead, gradBack := zeros(n, size), zeros(n, size)
	for k, h := range features {
		share := math.Exp(parts[k] - sum) // of segment k in the likelihood
		_, slope := crossEntropy(p.margins[k], violation)
		g := scale * share * slope
		m.classifier.backward(h, []float64{g, -g}, grads[k])

		g = scale * (p.attention[k] - share) // with respect to the score before the softmax
		axpy(g, p.outer[k], m.u.grad)
		gradOuter := make([]float64, len(p.outer[k]))
		for i, t := range p.outer[k] {
			gradOuter[i] = g * m.u.value[i] * (1 - t*t)
		}
		gradState := make([]float64, 2*size)
		m.outer.backward(p.states[k], gradOuter, gradState)
		gradAhead[k], gradBack[n-1-k] = gradState[:size], gradState[size:]
	}
	m.forward.backward(features, p.ahead, gradAhead, grads)
	m.backward.backward(reversed(features), p.back, gradBack, reversed(grads))
	return -scale * sum
}

func (m *FGSA) scoreBag(features [][]float64) train.Score {
	p := m.pass(features)
	_, violation := p.likelihood(true)
	_, compliant := p.likelihood(false)
	score := train.Score{Bag: violation - compliant}
	for k, margin := range p.margins {
		// The probabilities of a bag whose other instances are undecided: (1 ± gated polarity) / 2 = (1-a)/2 + a p.
		var others float64
		for j, a := range p.attention {
			if j != k {
				others += a / 2
			}
		}
		own := math.Log(p.attention[k])
		score.Instances = append(score.Instances,
			logSum(math.Log(others), own-logistic.Softplus(-margin))-logSum(math.Log(others), own-logistic.Softplus(margin)))
	}
	return score
}

// logSum is log(sum(exp(xs))), of which at least one must be finite.
func logSum(xs ...float64) float64 {
	top, sum := slices.Max(xs), 0.0
	for _, x := range xs {
		sum += math.Exp(x - top)
	}
	return top + math.Log(sum)
}

// reversed returns the rows in reverse order, without copying them.
func reversed(rows [][]float64) [][]float64 {
	out := slices.Clone(rows)
	slices.Reverse(out)
	return out
}
