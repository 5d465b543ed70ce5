package encoder

import (
	"slices"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"
	"golang.org/x/sys/cpu"
)

// fused is a network laid out for scoring on a CPU: the weights as oneDNN wants them, and all between two products done
// in one pass over each token (kernels.h). It computes what network computes, without padding and without a backward
// pass.
type fused struct {
	net       *network // embeddings and classifier
	kind      gotch.DType
	threads   int
	embedNorm norm // the norms are float32
	layers    []fusedLayer
}

// fusedLayer is a layer of it. The classifier reads first tokens alone, so the last layer computes queries, and all that
// follows attention, for no other; keyValue is its own product of keys and values. In the others query makes all three.
type fusedLayer struct {
	query, keyValue      fusedDense
	attended             fusedDense
	intermediate, output fusedDense
	attentionNorm        norm
	outputNorm           norm
}

// fusedDense is a linear layer with out outputs, of floats in oneDNN's layout or of integers.
type fusedDense struct {
	out          int64
	weight, bias *ts.Tensor
	int8         *quantised
}

// fusable tells whether a network can be laid out so. DeBERTa's attention is another.
func fusable(n *network) bool {
	known := n.kind == gotch.Float || n.kind == gotch.BFloat16 && cpu.X86.HasAVX512BF16
	return known && !n.device.IsCuda() && !n.cfg.Disentangled.Relative && hasLinear()
}

// apply is the product of x with the weights and, of floats, the activation function after it.
func (d *fusedDense) apply(k kernels, x activations, activation string) product {
	if d.int8 != nil {
		return product{values: k.qlinear(x.bytes, d.int8), step: x.step, bias: d.int8.bias, columns: d.out}
	}
	return product{values: k.packedLinear(x.values, d.weight, d.bias, activation), columns: d.out}
}

// fusedBatch is what the layers share of a batch.
type fusedBatch struct {
	heads
	tokens, padded int64 // rows; with filler
	firsts         int64 // sequences; with filler
}

// encode computes the last hidden state of each sequence's first token, [sequences, hidden] in float32.
func (f *fused) encode(g *graph, p *packed) *ts.Tensor {
	n := f.net
	k := kernels{g, f.threads}
	size := int64(n.cfg.HiddenSize / n.cfg.Heads)
	b := fusedBatch{
		tokens: int64(len(p.ids)) - p.filler, padded: int64(len(p.ids)), firsts: int64(len(p.first)),
		heads: heads{
			count: int64(n.cfg.Heads), size: size, scale: n.scale[0], sequences: len(p.lengths),
			first: g.int64s(p.first, n.device), length: g.int64s(p.lengths, n.device), longest: slices.Max(p.lengths), scratch: k.attendScratch(slices.Max(p.lengths), size),
		},
	}
	x := k.embed(n, f.embedNorm, g.int64s(p.ids, n.device), g.int64s(p.positions, n.device), f.kind, f.layers[0].query.int8)
	for i := range f.layers {
		last := i == len(f.layers)-1
		var next *quantised
		if !last {
			next = f.layers[i+1].query.int8
		}
		x = k.step(x, func(k kernels) activations { return f.layer(k, &b, &f.layers[i], x, last, next) })
	}
	return g.cast(x.values, gotch.Float)
}

// step runs a layer of x with a graph of its own: all that it makes is freed but its result, and x, which is done with.
func (k kernels) step(x activations, layer func(k kernels) activations) activations {
	s := graph{err: k.err}
	y := layer(kernels{&s, k.threads})
	for _, t := range y.tensors() {
		k.owned = append(k.owned, s.release(t))
	}
	for _, t := range x.tensors() {
		s.owned = append(s.owned, k.release(t))
	}
	s.drop()
	k.err = s.err
	return y
}

// layer runs one layer; next is what takes its bytes, if it takes any.
func (f *fused) layer(k kernels, b *fusedBatch, l *fusedLayer, x activations, last bool, next *quantised) activations {
	cfg := f.net.cfg
	hidden, eps := int64(cfg.HiddenSize), cfg.LayerNormEps
	var attended product
	var at *ts.Tensor
	rows := b.padded
	if last {
		rows, at = b.firsts, b.first
		q := l.query.apply(k, k.pickRows(x, at), "")
		kv := l.keyValue.apply(k, x, "")
		attended = k.attend(b.heads, q, kv, 0, hidden, true, rows, int64(b.sequences), f.kind)
	} else {
		qkv := l.query.apply(k, x, "")
		attended = k.attend(b.heads, qkv, qkv, hidden, 2*hidden, false, rows, b.tokens, f.kind)
	}
	y := l.attended.apply(k, k.feed(attended, rows, "", l.attended.int8), "")
	x = k.addNorm(x, at, y, rows, l.attentionNorm, eps, l.intermediate.int8)
	h := l.intermediate.apply(k, x, cfg.HiddenAct)
	y = l.output.apply(k, k.feed(h, rows, cfg.HiddenAct, l.output.int8), "")
	return k.addNorm(x, nil, y, rows, l.outputNorm, eps, next)
}

// feed makes of a product what the next linear layer takes. The activation function is still to come where that is of
// integers.
func (k kernels) feed(x product, rows int64, activation string, next *quantised) activations {
	if next == nil {
		return activations{values: x.values}
	}
	return k.quantise(x, rows, activation, next)
}

// pickRows takes rows of x for a linear layer.
func (k kernels) pickRows(x activations, rows *ts.Tensor) activations {
	if x.bytes == nil {
		return activations{values: k.pick(x.values, rows)}
	}
	return activations{bytes: k.pick(x.bytes, rows), step: k.pick(x.step, rows)}
}
