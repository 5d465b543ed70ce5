package encoder

// #include "panels.h"
import "C"

import (
	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"

	"assay/rewardmodel/checkpoint"
)

// panelEngine is the layers of a network as panels.h computes them: each thread carries panels of whole sequences through
// all layers.
type panelEngine struct {
	level C.int
	model C.panel_batch // without a batch; its pointers are into tensors of the model
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

// encode computes the last hidden state of each sequence's first token, [rows of p.first, hidden] in float32.
func (e *panelEngine) encode(k kernels, p *packed, device gotch.Device) *ts.Tensor {
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
	b.scratch_bytes = C.panel_scratch(&b, C.int64_t(plan.rows), C.int64_t(p.longest()))
	scratch, _ := k.empty(gotch.Int8, int64(k.threads)*int64(b.scratch_bytes))
	b.scratch = (*C.char)(pointer(k.tensorScope, scratch))
	if k.err == nil {
		C.panel_encode(&b, e.level, C.int(k.threads))
	}
	return out
}
