package encoder

// #include "modernbert.h"
import "C"

import (
	"unsafe"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"
)

// rotary is the tables of rotary positions for a batch.
type rotary struct{ positions, cos, sin *ts.Tensor }

func (r *rotations) tables(scope *tensorScope, p *packed, positions *ts.Tensor) rotary {
	n, half := p.longest(), int64(len(r.frequencies))
	r.grow(int(n))
	return rotary{
		positions, scope.float32s(r.cos[:n*half], gotch.CPU, n, half), scope.float32s(r.sin[:n*half], gotch.CPU, n, half),
	}
}

// encodeModern is encode for a ModernBERT.
func (f *fused) encodeModern(scope *tensorScope, p *packed) *ts.Tensor {
	n, m := f.net, f.net.cfg.Modern
	k := kernels{scope, f.threads}
	size, longest := int64(n.cfg.HiddenSize/n.cfg.Heads), p.longest()
	all := heads{
		count: int64(n.cfg.Heads), size: size, scale: n.scale[0], runs: len(p.lengths),
		first: scope.int64s(p.first, n.device), length: scope.int64s(p.lengths, n.device), longest: longest, scratch: k.attendScratch(longest, size),
	}
	near := all
	near.local, near.window = true, int64(m.Window())
	positions := scope.int64s(p.positions, n.device)
	global, local := n.modern.global.tables(scope, p, positions), n.modern.local.tables(scope, p, positions)
	x := stream{sum: k.embed(n, f.embedNorm, scope.int64s(p.ids, n.device), positions, nil, gotch.Float)}
	x.normed = scope.do("cast", func() (*ts.Tensor, error) { return x.sum.ToDtype(f.kind, false, true, false) })
	for i := range f.layers {
		by, among := global, all
		if m.Local[i] {
			by, among = local, near
		}
		next, kind := f.finalNorm, gotch.Float
		if i < len(f.layers)-1 {
			next, kind = f.layers[i+1].attentionNorm, f.kind
		}
		x = inScope(k, x, func(k kernels) stream { return f.modernLayer(k, p, &f.layers[i], x, by, among, next, kind) })
	}
	if m.MeanPooling {
		return k.mean(x.normed, all, int64(len(p.first)), int64(n.cfg.HiddenSize))
	}
	return x.normed
}

// modernLayer runs one layer; next normalizes its output to kind. When keys and values have a separate projection, it
// computes only first tokens.
func (f *fused) modernLayer(k kernels, p *packed, l *fusedLayer, x stream, by rotary, among heads, next norm, kind gotch.DType) stream {
	cfg := f.net.cfg
	hidden, eps, used, rows := int64(cfg.HiddenSize), cfg.LayerNormEps, int64(len(p.ids))-p.padding, int64(len(p.ids))
	var attended linearOutput
	var at *ts.Tensor
	if l.keyValue.weight != nil {
		at, used, rows = among.first, int64(len(p.lengths)), int64(len(p.first))
		q := l.query.apply(k, k.pick(x.normed, at), "") // position 0, which is not rotated
		kv := l.keyValue.apply(k, x.normed, "")
		k.rope(kv, among.count, among.size, by)
		attended = k.attend(among, q, kv, 0, hidden, true, rows, used, f.kind)
	} else {
		qkv := l.query.apply(k, x.normed, "")
		k.rope(qkv, 2*among.count, among.size, by)
		attended = k.attend(among, qkv, qkv, hidden, 2*hidden, false, rows, used, f.kind)
	}
	y := l.attended.apply(k, attended.values, "")
	x = k.sumNorm(x.sum, at, y, rows, l.outputNorm, eps, f.kind)
	h := k.gate(l.intermediate.apply(k, x.normed, ""), rows, cfg.HiddenAct, f.kind)
	return k.sumNorm(x.sum, nil, l.output.apply(k, h, ""), rows, next, eps, kind)
}

// rope rotates the given number of heads at the start of each row of x, in place.
func (k kernels) rope(x linearOutput, heads, size int64, by rotary) {
	if k.err != nil {
		return
	}
	a := C.rope_args{
		rows: C.int64_t(int64(x.values.Numel()) / x.columns), heads: C.int64_t(heads), size: C.int64_t(size), stride: C.int64_t(x.columns),
		positions: k.int64s(by.positions), cos: k.floats(by.cos), sin: k.floats(by.sin),
		data: pointer(k.tensorScope, x.values), half: half(x.values.DType()),
	}
	if k.err == nil {
		C.rope(&a, C.int(k.threads))
	}
}

// gate multiplies activation(x), for the first half of the columns of x, by the other half.
func (k kernels) gate(x linearOutput, rows int64, activation string, kind gotch.DType) *ts.Tensor {
	columns := x.columns / 2
	out, _ := k.empty(kind, rows, columns)
	a := C.gate_args{
		rows: C.int64_t(rows), columns: C.int64_t(columns), x: k.matrix(x, 0), function: function(activation),
		out: pointer(k.tensorScope, out), half: half(kind),
	}
	if k.err == nil {
		C.gate(&a, C.int(k.threads))
	}
	return out
}

// sumNorm adds y to x and normalizes the sum; at maps each row of y to a row of x, and nil is the identity.
func (k kernels) sumNorm(x, at *ts.Tensor, y linearOutput, rows int64, w norm, epsilon float64, kind gotch.DType) stream {
	sum, _ := k.empty(gotch.Float, rows, y.columns)
	out, _ := k.empty(kind, rows, y.columns)
	a := C.sum_norm_args{
		rows: C.int64_t(rows), columns: C.int64_t(y.columns), x: k.table(x, y.columns), y: k.matrix(y, 0), x_rows: k.int64s(at),
		sum: k.floats(sum), norm: k.norm(w, epsilon), out: pointer(k.tensorScope, out), half: half(kind),
	}
	if k.err == nil {
		C.sum_norm(&a, C.int(k.threads))
	}
	return stream{sum, out}
}

// normalize normalizes x, float32 [rows, columns].
func (k kernels) normalize(x *ts.Tensor, rows, columns int64, w norm, epsilon float64) *ts.Tensor {
	out, _ := k.empty(gotch.Float, rows, columns)
	a := C.sum_norm_args{
		rows: C.int64_t(rows), columns: C.int64_t(columns), x: k.table(x, columns), norm: k.norm(w, epsilon), out: pointer(k.tensorScope, out),
	}
	if k.err == nil {
		C.sum_norm(&a, C.int(k.threads))
	}
	return out
}

// mean averages the rows of each sequence of x, float32; rows beyond the sequences are 0.
func (k kernels) mean(x *ts.Tensor, of heads, rows, columns int64) *ts.Tensor {
	out, mem := k.empty(gotch.Float, rows, columns)
	if k.err != nil {
		return nil
	}
	clear(mem)
	a := C.mean_args{
		sequences: C.int64_t(of.runs), columns: C.int64_t(columns), first: k.int64s(of.first), length: k.int64s(of.length),
		x: k.floats(x), out: (*C.float)(unsafe.Pointer(&mem[0])),
	}
	if k.err == nil {
		C.mean(&a, C.int(k.threads))
	}
	return out
}
