package encoder

import (
	"math"

	"github.com/sugarme/gotch/ts"
)

// quantized is a linear layer whose matrix multiplication (GEMM) runs on 8-bit integers.
//
// Weights and activations are both multiplied by a Hadamard matrix first. The matrix is orthogonal, so the result of the
// GEMM does not change, but outliers in a few channels are spread over all channels and no longer determine the scale
// (QuaRot, Ashkboos et al. 2024). The weights then have one scale per output and the activations one scale per token.
// The scale of a token depends on that token only, so the rest of the batch has no effect, no value is clipped, and no
// calibration is needed.
type quantized struct {
	weight    *ts.Tensor // [in, out] int8, in oneDNN's layout
	scales    *ts.Tensor // [out]
	zeros     *ts.Tensor // [out] int32, all 0
	bias      *ts.Tensor // [out]
	one, zero *ts.Tensor // [1], the scale 1 and the zeroPoint of the activations
}

func (q *quantized) tensors() []*ts.Tensor {
	return []*ts.Tensor{q.weight, q.scales, q.zeros, q.bias, q.one, q.zero}
}

// zeroPoint is the quantized value of an activation of 0, with 127 values on either side.
const zeroPoint = 128

// quantize rounds weight [out, in], which it overwrites, to int8 with one scale per row.
func quantize(weight []float32, in int) (rounded []int8, scales []float32) {
	rotate(weight, in)
	rounded, scales = make([]int8, len(weight)), make([]float32, len(weight)/in)
	for n := range scales {
		row := weight[n*in : (n+1)*in]
		var largest float32
		for _, w := range row {
			largest = max(largest, abs(w))
		}
		scale := max(largest/127, 1e-30)
		for k, w := range row {
			rounded[n*in+k] = int8(math.RoundToEven(float64(w / scale)))
		}
		scales[n] = scale / float32(rotation(in)) // normalizes the two Hadamard rotations
	}
	return rounded, scales
}

func abs(v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ (1 << 31)) }
