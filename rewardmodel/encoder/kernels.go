package encoder

// #cgo CFLAGS: -O3 -Wno-psabi
// #cgo LDFLAGS: -ldl -lm
// #include "modernbert.h"
import "C"

import (
	"unsafe"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"

	"assay/rewardmodel/checkpoint"
)

// linearOutput is the output of a linear layer, [rows, columns].
type linearOutput struct {
	values  *ts.Tensor
	columns int64
}

// kernels calls the C functions of kernels.h and records errors in a tensorScope.
type kernels struct {
	*tensorScope
	threads int
}

func pointer(scope *tensorScope, t *ts.Tensor) unsafe.Pointer {
	if t == nil || scope.err != nil {
		return nil
	}
	p, err := t.DataPtr()
	if err != nil {
		scope.fail("data pointer", err)
	}
	return p
}

func (k kernels) floats(t *ts.Tensor) *C.float { return (*C.float)(pointer(k.tensorScope, t)) }

func (k kernels) int64s(t *ts.Tensor) *C.int64_t { return (*C.int64_t)(pointer(k.tensorScope, t)) }

// half is 1 for bfloat16 and 0 for float32.
func half(kind gotch.DType) C.int32_t {
	if kind == gotch.BFloat16 {
		return 1
	}
	return 0
}

// matrix describes the columns of p starting at from.
func (k kernels) matrix(p linearOutput, from int64) C.matrix {
	if k.err != nil || p.values == nil {
		return C.matrix{}
	}
	m := C.matrix{data: pointer(k.tensorScope, p.values), stride: C.int64_t(p.columns), half: half(p.values.DType())}
	if from > 0 {
		m.data = unsafe.Add(m.data, from*int64(p.values.DType().Size()))
	}
	return m
}

// table describes the rows of a tensor with the given number of columns, such as weights.
func (k kernels) table(t *ts.Tensor, columns int64) C.matrix {
	return k.matrix(linearOutput{values: t, columns: columns}, 0)
}

func (k kernels) norm(n norm, epsilon float64) C.norm_weights {
	return C.norm_weights{weight: k.floats(n.weight), bias: k.floats(n.bias), epsilon: C.float(epsilon)}
}

// embed sums the embeddings of tokens and normalizes them; nil types are all 0.
func (k kernels) embed(n *network, w norm, ids, positions, types *ts.Tensor, kind gotch.DType) *ts.Tensor {
	hidden := int64(n.cfg.HiddenSize)
	rows := int64(ids.Numel())
	out, _ := k.empty(kind, rows, hidden)
	a := C.embed_args{
		rows: C.int64_t(rows), columns: C.int64_t(hidden), ids: k.int64s(ids), positions: k.int64s(positions), types: k.int64s(types),
		word: k.table(n.word, hidden), position: k.table(n.position, hidden), token_type: k.table(n.tokenType, hidden),
		norm: k.norm(w, n.cfg.LayerNormEps), out: pointer(k.tensorScope, out), half: half(kind),
	}
	if k.err == nil {
		C.embed(&a, C.int(k.threads))
	}
	return out
}

// addNorm normalizes x + y; at maps each row of y to a row of x, and nil is the identity.
func (k kernels) addNorm(x, at *ts.Tensor, y linearOutput, rows int64, w norm, epsilon float64) *ts.Tensor {
	if k.err != nil {
		return nil
	}
	kind := x.DType()
	out, _ := k.empty(kind, rows, y.columns)
	a := C.add_norm_args{
		rows: C.int64_t(rows), columns: C.int64_t(y.columns), x: k.table(x, y.columns), y: k.matrix(y, 0), x_rows: k.int64s(at),
		norm: k.norm(w, epsilon), out: pointer(k.tensorScope, out), half: half(kind),
	}
	if k.err == nil {
		C.add_norm(&a, C.int(k.threads))
	}
	return out
}

// function is the number of an activation function in kernels.h; -1 for "".
func function(activation string) C.int32_t {
	switch activation {
	case checkpoint.GELU:
		return C.gelu
	case checkpoint.GELUTanh:
		return C.gelu_tanh
	case checkpoint.ReLU:
		return C.relu
	case checkpoint.Tanh:
		return C.hyperbolic_tangent
	}
	return -1
}

// dense applies a layer of the classifier to x, float32 [rows, in]: [rows, out].
func (k kernels) dense(x *ts.Tensor, rows int64, d *classifierLayer) *ts.Tensor {
	y, _ := k.empty(gotch.Float, rows, d.out)
	a := C.dense_args{
		rows: C.int64_t(rows), in: C.int64_t(d.in), out: C.int64_t(d.out), x: k.floats(x),
		weight: k.floats(d.weight), bias: k.floats(d.bias), function: function(d.activation), y: k.floats(y),
	}
	if k.err == nil {
		C.dense(&a, C.int(k.threads))
	}
	return y
}

// heads describe the attention of a layer.
type heads struct {
	count, size int64
	scale       float64
	runs        int
	first       *ts.Tensor // [sequences or more] row of the first token
	length      *ts.Tensor // [sequences]
	longest     int64      // maximum length, with the context
	scratch     *ts.Tensor // see attendScratch
	local       bool       // tokens attend only to those at most window away
	window      int64

	// Nil without contexts.
	contextFirst, contextLength *ts.Tensor // [sequences] rows of the context, none if its length is 0
	run, member                 *ts.Tensor // the sequences of each run, which share a context; see kernels.h
}

// attendScratch allocates the scratch memory of attend.
func (k kernels) attendScratch(longest, size int64) *ts.Tensor {
	t, _ := k.empty(gotch.Float, int64(k.threads)*int64(C.attend_scratch(C.int64_t(longest), C.int64_t(size))))
	return t
}

// attend runs self-attention within each sequence, which also attends to its context: q is [rows, hidden], and kv is [tokens, ...], with the keys and the
// values starting at the given columns. With firstOnly, q has one row per sequence, its first token. Rows of q beyond
// the sequences give 0.
func (k kernels) attend(h heads, q, kv linearOutput, keys, values int64, firstOnly bool, rows, used int64, kind gotch.DType) linearOutput {
	hidden := h.count * h.size
	out, mem := k.empty(kind, rows, hidden)
	if k.err != nil {
		return linearOutput{}
	}
	clear(mem[used*hidden*int64(kind.Size()):])
	a := C.attend_args{
		runs: C.int64_t(h.runs), heads: C.int64_t(h.count), size: C.int64_t(h.size),
		first: k.int64s(h.first), length: k.int64s(h.length),
		context_first: k.int64s(h.contextFirst), context_length: k.int64s(h.contextLength),
		run: k.int64s(h.run), member: k.int64s(h.member), q: k.matrix(q, 0), k: k.matrix(kv, keys), v: k.matrix(kv, values),
		scale: C.float(h.scale), scratch: k.floats(h.scratch), longest: C.int64_t(h.longest), out: unsafe.Pointer(&mem[0]), half: half(kind),
	}
	if firstOnly {
		a.first_only = 1
	}
	switch {
	case k.err != nil:
	case h.local:
		C.attend_near(&C.attend_near_args{all: a, window: C.int64_t(h.window)}, C.int(k.threads))
	default:
		C.attend(&a, C.int(k.threads))
	}
	return linearOutput{values: out, columns: hidden}
}
