package encoder

// #cgo CFLAGS: -O3 -Wno-psabi
// #cgo LDFLAGS: -ldl -lm
// #include "kernels.h"
import "C"

import (
	"slices"
	"unsafe"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"

	"assay/rewardmodel/checkpoint"
)

// activations are the values of tokens between two operations: [rows, columns] as float32 or bfloat16, or as bytes of which
// each row has a step, or as both.
type activations struct {
	values, bytes, step *ts.Tensor
}

// tensors are those of x that there are.
func (x activations) tensors() []*ts.Tensor {
	return slices.DeleteFunc([]*ts.Tensor{x.values, x.bytes, x.step}, func(t *ts.Tensor) bool { return t == nil })
}

// product is what a linear layer gives: [rows, columns]. Where it comes of integers, step and bias are still to be
// applied: value * step[row] + bias[column].
type product struct {
	values, step, bias *ts.Tensor
	columns            int64
}

// kernels calls the C functions of kernels.h, with errors kept by a graph.
type kernels struct {
	*graph
	threads int
}

func pointer(g *graph, t *ts.Tensor) unsafe.Pointer {
	if t == nil || g.err != nil {
		return nil
	}
	p, err := t.DataPtr()
	if err != nil {
		g.fail("data pointer", err)
	}
	return p
}

func (k kernels) floats(t *ts.Tensor) *C.float { return (*C.float)(pointer(k.graph, t)) }

func (k kernels) int64s(t *ts.Tensor) *C.int64_t { return (*C.int64_t)(pointer(k.graph, t)) }

// half tells bfloat16 from float32.
func half(kind gotch.DType) C.int32_t {
	if kind == gotch.BFloat16 {
		return 1
	}
	return 0
}

// matrix is the columns of p from one on.
func (k kernels) matrix(p product, from int64) C.matrix {
	if k.err != nil || p.values == nil {
		return C.matrix{}
	}
	m := C.matrix{data: pointer(k.graph, p.values), stride: C.int64_t(p.columns), half: half(p.values.DType())}
	if from > 0 {
		m.data = unsafe.Add(m.data, from*int64(p.values.DType().Size()))
	}
	if p.step != nil {
		m.step, m.bias = k.floats(p.step), k.floats(p.bias)
		m.bias = (*C.float)(unsafe.Add(unsafe.Pointer(m.bias), 4*from))
	}
	return m
}

// table is a matrix of weights.
func (k kernels) table(t *ts.Tensor, columns int64) C.matrix {
	return k.matrix(product{values: t, columns: columns}, 0)
}

func (k kernels) norm(n norm, epsilon float64) C.norm_weights {
	return C.norm_weights{weight: k.floats(n.weight), bias: k.floats(n.bias), epsilon: C.float(epsilon)}
}

// quantiser makes room for the bytes that feed next, if it takes bytes.
func (k kernels) quantiser(next *quantised, rows, columns int64) (q C.quantiser, bytes, step *ts.Tensor) {
	if next == nil {
		return q, nil, nil
	}
	bytes, _ = k.empty(gotch.Uint8, rows, columns)
	step, _ = k.empty(gotch.Float, rows)
	q = C.quantiser{bytes: (*C.uint8_t)(pointer(k.graph, bytes)), step: k.floats(step)}
	return q, bytes, step
}

// embed adds up the embeddings of tokens and normalises them.
func (k kernels) embed(n *network, w norm, ids, positions *ts.Tensor, kind gotch.DType, next *quantised) activations {
	hidden := int64(n.cfg.HiddenSize)
	rows := int64(ids.Numel())
	out, _ := k.empty(kind, rows, hidden)
	q, bytes, step := k.quantiser(next, rows, hidden)
	a := C.embed_args{
		rows: C.int64_t(rows), columns: C.int64_t(hidden), ids: k.int64s(ids), positions: k.int64s(positions),
		word: k.table(n.word, hidden), position: k.table(n.position, hidden), token_type: k.table(n.tokenType, hidden),
		norm: k.norm(w, n.cfg.LayerNormEps), out: pointer(k.graph, out), half: half(kind), bytes: q,
	}
	if k.err == nil {
		C.embed(&a, C.int(k.threads))
	}
	return activations{out, bytes, step}
}

// addNorm normalises x + y; at names the row of x for each of y, if it is not its own.
func (k kernels) addNorm(x activations, at *ts.Tensor, y product, rows int64, w norm, epsilon float64, next *quantised) activations {
	if k.err != nil {
		return activations{}
	}
	kind := x.values.DType()
	out, _ := k.empty(kind, rows, y.columns)
	q, bytes, step := k.quantiser(next, rows, y.columns)
	a := C.add_norm_args{
		rows: C.int64_t(rows), columns: C.int64_t(y.columns), x: k.table(x.values, y.columns), y: k.matrix(y, 0), x_rows: k.int64s(at),
		norm: k.norm(w, epsilon), out: pointer(k.graph, out), half: half(kind), bytes: q,
	}
	if k.err == nil {
		C.add_norm(&a, C.int(k.threads))
	}
	return activations{out, bytes, step}
}

// quantise makes bytes of activation(x).
func (k kernels) quantise(x product, rows int64, activation string, next *quantised) activations {
	q, bytes, step := k.quantiser(next, rows, x.columns)
	a := C.quantise_args{rows: C.int64_t(rows), columns: C.int64_t(x.columns), x: k.matrix(x, 0), function: -1, bytes: q}
	switch activation {
	case checkpoint.GELU:
		a.function = C.gelu
	case checkpoint.GELUTanh:
		a.function = C.gelu_tanh
	case checkpoint.ReLU:
		a.function = C.relu
	}
	if k.err == nil {
		C.quantise_rows(&a, C.int(k.threads))
	}
	return activations{bytes: bytes, step: step}
}

// rotation is the number of columns that rotate mixes: a power of two.
func rotation(columns int) int { return int(C.rotation(C.int64_t(columns))) }

// rotate multiplies each row of v [n, columns] with the Hadamard matrix of rotation(columns), block by block: twice gives
// rotation(columns) times v.
func rotate(v []float32, columns int) {
	C.rotate((*C.float)(&v[0]), C.int64_t(len(v)/columns), C.int64_t(columns))
}

// heads describe the attention of a layer.
type heads struct {
	count, size int64
	scale       float64
	sequences   int
	first       *ts.Tensor // [sequences or more] row of the first token
	length      *ts.Tensor // [sequences]
	longest     int64
	scratch     *ts.Tensor // see attendScratch
}

// attendScratch makes the room that attend needs.
func (k kernels) attendScratch(longest, size int64) *ts.Tensor {
	t, _ := k.empty(gotch.Float, int64(k.threads)*int64(C.attend_scratch(C.int64_t(longest), C.int64_t(size))))
	return t
}

// attend runs self-attention within each sequence: q [rows, hidden], and keys and values in kv [tokens, ...] from their
// columns on. With firstOnly, q has one row for each sequence, its first token. Rows of q beyond the sequences give 0.
func (k kernels) attend(h heads, q, kv product, keys, values int64, firstOnly bool, rows, used int64, kind gotch.DType) product {
	hidden := h.count * h.size
	out, mem := k.empty(kind, rows, hidden)
	if k.err != nil {
		return product{}
	}
	clear(mem[used*hidden*int64(kind.Size()):])
	a := C.attend_args{
		sequences: C.int64_t(h.sequences), heads: C.int64_t(h.count), size: C.int64_t(h.size),
		first: k.int64s(h.first), length: k.int64s(h.length), q: k.matrix(q, 0), k: k.matrix(kv, keys), v: k.matrix(kv, values),
		scale: C.float(h.scale), scratch: k.floats(h.scratch), longest: C.int64_t(h.longest), out: unsafe.Pointer(&mem[0]), half: half(kind),
	}
	if firstOnly {
		a.first_only = 1
	}
	if k.err == nil {
		C.attend(&a, C.int(k.threads))
	}
	return product{values: out, columns: hidden}
}
