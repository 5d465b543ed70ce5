package encoder

import (
	"math"

	"github.com/sugarme/gotch/ts"
)

// quantised is a linear layer whose product is of 8-bit integers.
//
// Weights and activations are both multiplied with a Hadamard matrix first, which changes no product, as it is
// orthogonal, but deals what stands out in a few channels to all of them, so that nothing is lost to the scale of an
// outlier (QuaRot, Ashkboos et al. 2024). The weights then have one scale for each output, the activations one for each
// token, taken from the token alone: what else is in the batch changes nothing, nothing is clipped, and nothing has to
// be calibrated.
type quantised struct {
	weight    *ts.Tensor // [in, out] int8, in oneDNN's layout
	scales    *ts.Tensor // [out]
	zeros     *ts.Tensor // [out] int32, all 0
	bias      *ts.Tensor // [out]
	one, zero *ts.Tensor // [1], of the activations: scale 1, and zeroByte
}

func (q *quantised) tensors() []*ts.Tensor {
	return []*ts.Tensor{q.weight, q.scales, q.zeros, q.bias, q.one, q.zero}
}

// zeroByte is the byte of an activation of 0, with 127 steps on either side.
const zeroByte = 128

// quantise rounds weight [out, in], which it overwrites, to integers, with a scale for each row.
func quantise(weight []float32, in int) (rounded []int8, scales []float32) {
	rotate(weight, in)
	rounded, scales = make([]int8, len(weight)), make([]float32, len(weight)/in)
	for n := range scales {
		row := weight[n*in : (n+1)*in]
		var most float32
		for _, w := range row {
			most = max(most, abs(w))
		}
		step := max(most/127, 1e-30)
		for k, w := range row {
			rounded[n*in+k] = int8(math.RoundToEven(float64(w / step)))
		}
		scales[n] = step / float32(rotation(in)) // of both matrices together
	}
	return rounded, scales
}

func abs(v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ (1 << 31)) }
