package encoder

// #include "panels.h"
// #include "kernels.h"
import "C"

import (
	"errors"
	"runtime"
	"unsafe"

	"assay/rewardmodel/checkpoint"
)

// panelModel is a network as panels.h computes it: each thread carries panels of whole sequences through all layers. It uses
// neither libtorch nor tensors.
type panelModel struct {
	level     C.int
	model     C.panel_batch // without a batch; its pointers are into the memory of the weights, and into layers
	layers    alignedMemory // empty once the model is closed
	pool, out panelDense
}

// panelDense is a layer of the classifier in the layout of kernels.h.
type panelDense struct {
	in, out      int
	weight, bias *C.float // [in, out rounded up to 16], [out rounded up to 16]
	function     C.int32_t
}

// isHalf is 1 for bf16, and 0 for int8.
func isHalf(p Precision) C.int {
	if p == BF16 {
		return 1
	}
	return 0
}

// panelsSupport reports whether panels can compute a model of that configuration.
func panelsSupport(cfg checkpoint.Config) bool {
	return !cfg.Disentangled.Relative && cfg.ModelType != checkpoint.ModernBert
}

// bf16Panels reports whether this runtime computes a model in bf16 in panels. Where there are no kernels for them but the
// portable ones, libtorch is faster.
func (r *Runtime) bf16Panels(cfg checkpoint.Config) bool {
	return !r.device.IsCuda() && C.panel_best(1) != C.bf16_portable && panelsSupport(cfg)
}

// panelLevels are the levels of a precision that this processor supports, from the slowest to the fastest.
func panelLevels(p Precision) (levels []C.int) {
	first, last := C.int(C.int8_portable), C.int(C.int8_amx)
	if p == BF16 {
		first, last = C.bf16_portable, C.bf16_amx
	}
	for level := first; level <= last; level++ {
		if C.panel_supports(level) != 0 {
			levels = append(levels, level)
		}
	}
	return levels
}

// logits computes the logits of a batch, [sequences, 2*aspects] in packed order, on the thread of r.
func (m *panelModel) logits(r *Runtime, p *packed) ([]float32, error) {
	states, err := m.states(r, p)
	if err != nil {
		return nil, err
	}
	return m.out.apply(m.pool.apply(states, r.threads), r.threads), nil
}

// states computes the last hidden state of each sequence's first token, [sequences, hidden].
func (m *panelModel) states(r *Runtime, p *packed) ([]float32, error) {
	if m.layers.bytes == nil {
		return nil, errors.New("encoder: the model is closed")
	}
	var pinned runtime.Pinner
	defer pinned.Unpin()
	plan, b := p.panels(r.threads), m.model
	b.ids, b.positions, b.types = integers(&pinned, p.ids), integers(&pinned, p.positions), integers(&pinned, p.types)
	b.panels, b.panel = C.int64_t(len(plan.panel)-1), integers(&pinned, plan.panel)
	b.first, b.length = integers(&pinned, plan.first), integers(&pinned, plan.length)
	b.context, b.result = integers(&pinned, plan.context), integers(&pinned, plan.result)
	out := make([]float32, len(p.lengths)*int(b.hidden))
	b.out = floats(&pinned, out)
	b.scratch_bytes = C.panel_scratch(&b, C.int64_t(plan.rows), C.int64_t(p.longest()))
	if err := r.scratch.grow(r.threads * int(b.scratch_bytes)); err != nil {
		return nil, err
	}
	b.scratch = (*C.char)(unsafe.Pointer(&r.scratch.bytes[0]))
	C.panel_encode(&b, m.level, C.int(r.threads))
	return out, nil
}

// apply computes the layer for x, [rows, in]: [rows, out].
func (d *panelDense) apply(x []float32, threads int) []float32 {
	var pinned runtime.Pinner
	defer pinned.Unpin()
	rows := len(x) / d.in
	y := make([]float32, rows*d.out)
	C.dense(&C.dense_args{
		rows: C.int64_t(rows), in: C.int64_t(d.in), out: C.int64_t(d.out), x: floats(&pinned, x),
		weight: d.weight, bias: d.bias, function: d.function, y: floats(&pinned, y),
	}, C.int(threads))
	return y
}

// integers pins v for a call of C; nil stays nil.
func integers(pinned *runtime.Pinner, v []int64) *C.int64_t {
	if len(v) == 0 {
		return nil
	}
	pinned.Pin(&v[0])
	return (*C.int64_t)(unsafe.Pointer(&v[0]))
}

// floats pins v for a call of C.
func floats(pinned *runtime.Pinner, v []float32) *C.float {
	if len(v) == 0 {
		return nil
	}
	pinned.Pin(&v[0])
	return (*C.float)(unsafe.Pointer(&v[0]))
}
