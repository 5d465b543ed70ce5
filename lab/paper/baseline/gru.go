package baseline

import (
	"math"
	"slices"

	"assay/rewardmodel/logistic"
)

// gru is a gated recurrent unit in PyTorch's convention: with gates stacked as reset r, update z and candidate n,
//
//	r = s(Wr x + br + Ur h + cr)   z = s(Wz x + bz + Uz h + cz)
//	n = tanh(Wn x + bn + r * (Un h + cn))   h' = (1-z) n + z h,
//
// from h = 0.
type gru struct {
	hidden           int
	input, recurrent *dense
}

func (h *head) gru(in, hidden int) *gru {
	return &gru{hidden, h.dense(in, 3*hidden, hidden), h.dense(hidden, 3*hidden, hidden)}
}

// gruStep has the values of one step that the backward pass needs.
type gruStep struct {
	before, r, z, n, candidate []float64 // candidate is Un h + cn
}

// forward returns the state after each element of xs.
func (g *gru) forward(xs [][]float64) (states [][]float64, tape []gruStep) {
	h, size := make([]float64, g.hidden), g.hidden
	for _, x := range xs {
		in, rec := g.input.forward(x), g.recurrent.forward(h)
		step := gruStep{before: h, r: make([]float64, size), z: make([]float64, size), n: make([]float64, size), candidate: rec[2*size:]}
		h = make([]float64, size)
		for j := range size {
			step.r[j] = logistic.Sigmoid(in[j] + rec[j])
			step.z[j] = logistic.Sigmoid(in[size+j] + rec[size+j])
			step.n[j] = math.Tanh(in[2*size+j] + step.r[j]*rec[2*size+j])
			h[j] = (1-step.z[j])*step.n[j] + step.z[j]*step.before[j]
		}
		states, tape = append(states, h), append(tape, step)
	}
	return states, tape
}

// backward takes the gradient of each state, and adds the gradients of the parameters and, to gxs, those of the inputs.
func (g *gru) backward(xs [][]float64, tape []gruStep, gstates, gxs [][]float64) {
	size := g.hidden
	carried := make([]float64, size) // the gradient of the state from later steps
	for t, step := range slices.Backward(tape) {
		gin, grec := make([]float64, 3*size), make([]float64, 3*size)
		before := make([]float64, size)
		for j := range size {
			gh := gstates[t][j] + carried[j]
			gn := gh * (1 - step.z[j]) * (1 - step.n[j]*step.n[j])
			gr := gn * step.candidate[j] * step.r[j] * (1 - step.r[j])
			gz := gh * (step.before[j] - step.n[j]) * step.z[j] * (1 - step.z[j])
			gin[j], gin[size+j], gin[2*size+j] = gr, gz, gn
			grec[j], grec[size+j], grec[2*size+j] = gr, gz, gn*step.r[j]
			before[j] = gh * step.z[j]
		}
		g.input.backward(xs[t], gin, gxs[t])
		g.recurrent.backward(step.before, grec, before)
		carried = before
	}
}
