package encoder

// #include "int8.h"
import "C"

import (
	"errors"
	"math"
	"unsafe"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"
)

// int8Engine is the layers of a network as int8.h computes them: each thread carries panels of whole sequences through
// all layers.
//
// Weights and activations are both multiplied by a Hadamard matrix first. The matrix is orthogonal, so the result of a
// matrix multiplication does not change, but outliers in a few channels are spread over all channels and no longer
// determine the scale (QuaRot, Ashkboos et al. 2024). The weights then have one scale per output and the activations one
// scale per token. The scale of a token depends on that token only, so the rest of the batch has no effect, no value is
// clipped, and no calibration is needed.
type int8Engine struct {
	level C.int
	model C.int8_batch // without a batch; its pointers are into tensors of the model
}

// hasInt8 returns why this machine does not support int8, or nil if it does.
func (r *Runtime) hasInt8() error {
	switch {
	case r.device.IsCuda():
		return errors.New("int8 runs only on a CPU; use the device cpu, or precision bf16")
	case C.int8_best() == C.int8_portable:
		return errors.New("the processor has no AVX2 instructions, or the compiler of this binary did not support them; use precision bf16 or fp32")
	}
	return nil
}

// int8Levels are the levels that this processor supports, from the slowest to the fastest.
func int8Levels() (levels []C.int) {
	for level := range C.int(C.int8_levels) {
		if C.int8_supports(level) != 0 {
			levels = append(levels, level)
		}
	}
	return levels
}

// encode computes the last hidden state of each sequence's first token, [rows of p.first, hidden] in float32.
func (e *int8Engine) encode(k kernels, p *packed, device gotch.Device) *ts.Tensor {
	plan := p.panels(k.threads)
	b, hidden := e.model, int64(e.model.hidden)
	out, mem := k.empty(gotch.Float, int64(len(p.first)), hidden)
	if k.err != nil {
		return nil
	}
	clear(mem[len(p.lengths)*int(hidden)*4:])
	pass := func(v []int64) *C.int64_t { return k.int64s(k.tensorScope.int64s(v, device)) }
	b.ids, b.positions = pass(p.ids), pass(p.positions)
	if p.types != nil {
		b.types = pass(p.types)
	}
	b.panels, b.panel = C.int64_t(len(plan.panel)-1), pass(plan.panel)
	b.first, b.length, b.context, b.result = pass(plan.first), pass(plan.length), pass(plan.context), pass(plan.result)
	b.out = k.floats(out)
	b.scratch_bytes = C.int8_scratch(&b, C.int64_t(plan.rows), C.int64_t(p.longest()))
	scratch, _ := k.empty(gotch.Int8, int64(k.threads)*int64(b.scratch_bytes))
	b.scratch = (*C.char)(pointer(k.tensorScope, scratch))
	if k.err == nil {
		C.int8_encode(&b, e.level, C.int(k.threads))
	}
	return out
}

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

// rotation is the size of the Hadamard blocks that rotate uses: a power of two.
func rotation(columns int) int { return int(C.int8_rotation(C.int64_t(columns))) }

// rotate multiplies each row of v [n, columns] by the Hadamard matrix of size rotation(columns), block by block. Applied
// twice, it returns rotation(columns) times v.
func rotate(v []float32, columns int) {
	C.int8_rotate((*C.float)(unsafe.Pointer(&v[0])), C.int64_t(len(v)/columns), C.int64_t(columns))
}
