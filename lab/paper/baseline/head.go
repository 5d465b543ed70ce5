package baseline

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"assay/rewardmodel/train"
)

// maxWidth limits the width of features in a saved head.
const maxWidth = 1 << 14

// head is the parameters that a method learns in addition to the network: blocks for features of the given width,
// trained with Adam like the network. A method adds its blocks in a fixed order, so that a saved head can be restored.
type head struct {
	width  int
	blocks []*block
	steps  int
	rng    *rand.Rand // samples the initial values; nil: zero, to be loaded
}

type block struct {
	value, grad []float64
	m, v        []float64 // Adam's moments
}

// block adds n parameters sampled uniformly from ±1/sqrt(fan), as in PyTorch's linear and GRU layers.
func (h *head) block(n, fan int) *block {
	b := &block{make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)}
	if h.rng != nil {
		bound := 1 / math.Sqrt(float64(fan))
		for i := range b.value {
			b.value[i] = bound * (2*h.rng.Float64() - 1)
		}
	}
	h.blocks = append(h.blocks, b)
	return b
}

// clear zeroes the gradients.
func (h *head) clear() {
	for _, b := range h.blocks {
		clear(b.grad)
	}
}

// adam takes one step of Adam (Kingma and Ba, 2015) with the usual constants.
func (h *head) adam(lr float64) {
	const beta1, beta2, eps = 0.9, 0.999, 1e-8
	h.steps++
	first, second := 1-math.Pow(beta1, float64(h.steps)), 1-math.Pow(beta2, float64(h.steps))
	for _, b := range h.blocks {
		for i, g := range b.grad {
			b.m[i] = beta1*b.m[i] + (1-beta1)*g
			b.v[i] = beta2*b.v[i] + (1-beta2)*g*g
			b.value[i] -= lr * (b.m[i] / first) / (math.Sqrt(b.v[i]/second) + eps)
		}
	}
}

// MarshalBinary returns the exact parameters and optimizer state.
func (h *head) MarshalBinary() ([]byte, error) {
	out := binary.LittleEndian.AppendUint64(nil, uint64(h.width))
	out = binary.LittleEndian.AppendUint64(out, uint64(h.steps))
	for _, b := range h.blocks {
		for _, part := range [][]float64{b.value, b.m, b.v} {
			for _, x := range part {
				out = binary.LittleEndian.AppendUint64(out, math.Float64bits(x))
			}
		}
	}
	return out, nil
}

// load restores what MarshalBinary returned; build adds the blocks for features of the given width.
func (h *head) load(data []byte, build func(width int, rng *rand.Rand)) error {
	damaged := fmt.Errorf("baseline: learned parameters of %d bytes are damaged; remove the state to start from scratch", len(data))
	if len(data) < 16 {
		return damaged
	}
	width := binary.LittleEndian.Uint64(data)
	if width < 1 || width > maxWidth {
		return damaged
	}
	build(int(width), nil)
	size := 16
	for _, b := range h.blocks {
		size += 3 * 8 * len(b.value)
	}
	if len(data) != size {
		h.blocks = nil
		return damaged
	}
	h.steps = int(binary.LittleEndian.Uint64(data[8:]))
	data = data[16:]
	for _, b := range h.blocks {
		for _, part := range [][]float64{b.value, b.m, b.v} {
			for i := range part {
				part[i] = math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:]))
			}
			data = data[8*len(part):]
		}
	}
	return nil
}

// dense is a linear layer, y = Wx + b.
type dense struct {
	in           int
	weight, bias *block // weight is row-major, one row per output; bias may be nil
}

// dense adds a linear layer; fan sets the range of its initial values.
func (h *head) dense(in, out, fan int) *dense {
	return &dense{in, h.block(in*out, fan), h.block(out, fan)}
}

func (d *dense) forward(x []float64) []float64 {
	y := make([]float64, len(d.weight.value)/d.in)
	for o := range y {
		y[o] = dot(d.weight.value[o*d.in:][:d.in], x)
		if d.bias != nil {
			y[o] += d.bias.value[o]
		}
	}
	return y
}

// backward adds the gradients of the parameters and, to gx, that of the input x.
func (d *dense) backward(x, gy, gx []float64) {
	for o, g := range gy {
		axpy(g, x, d.weight.grad[o*d.in:][:d.in])
		axpy(g, d.weight.value[o*d.in:][:d.in], gx)
		if d.bias != nil {
			d.bias.grad[o] += g
		}
	}
}

func dot(a, b []float64) (sum float64) {
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

// axpy adds a*x to y.
func axpy(a float64, x, y []float64) {
	for i := range x {
		y[i] += a * x[i]
	}
}

// tanhs applies tanh to each element, in place.
func tanhs(x []float64) []float64 {
	for i, v := range x {
		x[i] = math.Tanh(v)
	}
	return x
}

// softmax returns the softmax of scores without overflow.
func softmax(scores []float64) []float64 {
	out, top, sum := make([]float64, len(scores)), slices.Max(scores), 0.0
	for i, s := range scores {
		out[i] = math.Exp(s - top)
		sum += out[i]
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// zeros returns n rows of the given width.
func zeros(n, width int) [][]float64 {
	rows := make([][]float64, n)
	for i := range rows {
		rows[i] = make([]float64, width)
	}
	return rows
}

// wide and narrow convert features and their gradients.
func wide(rows [][]float32) [][]float64 {
	out := make([][]float64, len(rows))
	for i, row := range rows {
		out[i] = make([]float64, len(row))
		for j, v := range row {
			out[i][j] = float64(v)
		}
	}
	return out
}

func narrow(rows [][]float64) [][]float32 {
	out := make([][]float32, len(rows))
	for i, row := range rows {
		out[i] = make([]float32, len(row))
		for j, v := range row {
			out[i][j] = float32(v)
		}
	}
	return out
}

// learnBag returns the loss of one bag times scale, and adds its gradients to those of the head and to grads, those of
// the features.
type learnBag func(features [][]float64, violation bool, scale float64, grads [][]float64) float64

// epochOfBags trains the network and a head with the mean loss of mini-batches of whole bags.
func epochOfBags(e *train.Epoch, h *head, learn learnBag) error {
	for _, bags := range e.BagBatches(e.RNG) {
		loss := func(features [][]float32, lr float64) (float64, [][]float32) {
			value, grads := lossOfBags(e.Data, h, learn, bags, features)
			h.adam(lr)
			return value, grads
		}
		if err := e.StepFeatures(instances(e, members(e.Data, bags)), loss); err != nil {
			return err
		}
	}
	return nil
}

// lossOfBags also computes the gradients of the head, in its blocks; features are those of the members of the bags.
func lossOfBags(d *train.Data, h *head, learn learnBag, bags []int, features [][]float32) (float64, [][]float32) {
	h.clear()
	rows, grads := wide(features), zeros(len(features), h.width)
	var total float64
	from := 0
	for _, bag := range bags {
		to := from + len(d.Bags[bag].Instances)
		total += learn(rows[from:to], d.Bags[bag].Violation, 1/float64(len(bags)), grads[from:to])
		from = to
	}
	return total, narrow(grads)
}

// scoreByFeatures scores every bag of n by the features of its instances.
func scoreByFeatures(n *train.Network, h *head, score func(features [][]float64) train.Score) ([]train.Score, error) {
	if h.blocks == nil {
		return nil, ErrUntrained
	}
	features, err := n.Features(n.All())
	if err != nil {
		return nil, err
	}
	scores := make([]train.Score, len(features))
	for i, rows := range features {
		scores[i] = score(wide(rows))
	}
	return scores, nil
}
