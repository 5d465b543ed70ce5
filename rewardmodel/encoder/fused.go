package encoder

import (
	"slices"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"
	"golang.org/x/sys/cpu"
)

// fused is a network repacked for scoring on a CPU: the weights are in oneDNN's layout, and everything between two matrix
// multiplications is one pass over each token (kernels.h). It computes what network computes, without padding and
// without a backward pass.
type fused struct {
	net       *network // of the embeddings and the classifier
	kind      gotch.DType
	threads   int
	embedNorm norm // the norms are float32
	layers    []fusedLayer
	pool, out classifierLayer

	finalNorm, headNorm norm // ModernBERT's
}

// fusedLayer is one layer of it. The classifier reads only first tokens, so the last layer computes queries and
// everything after attention for those tokens only, and keyValue is its separate projection to keys and values. In the
// other layers, query projects to all three. In a ModernBERT, the norms precede what they normalize, and with mean pooling
// the last layer is like the others.
type fusedLayer struct {
	query, keyValue      fusedDense
	attended             fusedDense
	intermediate, output fusedDense
	attentionNorm        norm
	outputNorm           norm
}

// fusedDense is a linear layer with out outputs, either of floats in oneDNN's layout or of int8.
type fusedDense struct {
	out          int64
	weight, bias *ts.Tensor
	int8         *quantized
}

// classifierLayer is a linear layer of the classifier in the layout of kernels.dense: libtorch's adds in an order that
// depends on the number of rows.
type classifierLayer struct {
	in, out      int64
	weight, bias *ts.Tensor // [in, out rounded up to 16], [out rounded up to 16]
	activation   string     // that follows; "" for none
}

// fusable reports whether a network can be fused. DeBERTa's disentangled attention is not supported.
func fusable(n *network) bool {
	supported := n.kind == gotch.Float || n.kind == gotch.BFloat16 && cpu.X86.HasAVX512BF16
	return supported && !n.device.IsCuda() && !n.cfg.Disentangled.Relative && hasLinear()
}

// apply multiplies x by the weights. A float layer also applies the activation function.
func (d *fusedDense) apply(k kernels, x activations, activation string) linearOutput {
	if d.int8 != nil {
		return linearOutput{values: k.qlinear(x.quantized, d.int8), scale: x.scale, bias: d.int8.bias, columns: d.out}
	}
	return linearOutput{values: k.packedLinear(x.values, d.weight, d.bias, activation), columns: d.out}
}

// fusedBatch is the part of a batch that all layers share.
type fusedBatch struct {
	heads                // of the sequences
	all            heads // of the sequences and the contexts
	sequences      int
	tokens, padded int64 // rows, without and with padding
	firsts         int64 // sequences, with padding
}

// encode computes the last hidden state of each sequence's first token, [sequences, hidden] in float32.
func (f *fused) encode(scope *tensorScope, p *packed) *ts.Tensor {
	if f.net.isModern() {
		return f.encodeModern(scope, p)
	}
	n := f.net
	k := kernels{scope, f.threads}
	size, longest := int64(n.cfg.HiddenSize/n.cfg.Heads), p.longest()
	b := fusedBatch{
		sequences: len(p.lengths), tokens: int64(len(p.ids)) - p.padding, padded: int64(len(p.ids)), firsts: int64(len(p.first)),
		heads: heads{
			count: int64(n.cfg.Heads), size: size, scale: n.scale[0], runs: len(p.lengths),
			first: scope.int64s(p.first, n.device), length: scope.int64s(p.lengths, n.device), longest: longest, scratch: k.attendScratch(longest, size),
		},
	}
	b.all = b.heads
	var types *ts.Tensor
	if p.types != nil {
		types = scope.int64s(p.types, n.device)
		first, length := p.contextRows()
		run, member := p.runs()
		none := make([]int64, len(p.contexts.first)) // a context has no context
		b.runs = len(run) - 1 - len(none)
		b.run, b.member = scope.int64s(run, n.device), scope.int64s(member, n.device)
		b.contextFirst = scope.int64s(slices.Concat(first, none), n.device)
		b.contextLength = scope.int64s(slices.Concat(length, none), n.device)
		b.all = b.heads
		b.all.runs += len(none)
		b.all.first = scope.int64s(slices.Concat(p.first[:b.sequences], p.contexts.first), n.device)
		b.all.length = scope.int64s(slices.Concat(p.lengths, p.contexts.lengths), n.device)
	}
	x := k.embed(n, f.embedNorm, scope.int64s(p.ids, n.device), scope.int64s(p.positions, n.device), types, f.kind, f.layers[0].query.int8)
	for i := range f.layers {
		last := i == len(f.layers)-1
		var next *quantized
		if !last {
			next = f.layers[i+1].query.int8
		}
		x = inScope(k, x, func(k kernels) activations { return f.layer(k, &b, &f.layers[i], x, last, next) })
	}
	return scope.cast(x.values, gotch.Float)
}

// classify maps first tokens [rows, hidden] to logits [rows, 2*aspects] in float32.
func (f *fused) classify(scope *tensorScope, x *ts.Tensor, rows int64) *ts.Tensor {
	k := kernels{scope, f.threads}
	x = k.dense(x, rows, &f.pool)
	if n := f.net; n.isModern() {
		x = k.normalize(x, rows, int64(n.cfg.HiddenSize), f.headNorm, n.cfg.LayerNormEps)
	}
	return k.dense(x, rows, &f.out)
}

// inScope runs a layer on x in a new tensorScope and frees x and all tensors of that scope except the result.
func inScope[T interface{ tensors() []*ts.Tensor }](k kernels, x T, layer func(k kernels) T) T {
	s := tensorScope{err: k.err}
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

// layer runs one layer; next is the int8 layer that consumes its output, or nil.
func (f *fused) layer(k kernels, b *fusedBatch, l *fusedLayer, x activations, last bool, next *quantized) activations {
	cfg := f.net.cfg
	hidden, eps := int64(cfg.HiddenSize), cfg.LayerNormEps
	var attended linearOutput
	var at *ts.Tensor
	rows := b.padded
	if last {
		rows, at = b.firsts, b.first
		q := l.query.apply(k, k.pickRows(x, at), "")
		kv := l.keyValue.apply(k, x, "")
		attended = k.attend(b.heads, q, kv, 0, hidden, true, rows, int64(b.sequences), f.kind)
	} else {
		qkv := l.query.apply(k, x, "")
		attended = k.attend(b.all, qkv, qkv, hidden, 2*hidden, false, rows, b.tokens, f.kind)
	}
	y := l.attended.apply(k, k.feed(attended, rows, "", l.attended.int8), "")
	x = k.addNorm(x, at, y, rows, l.attentionNorm, eps, l.intermediate.int8)
	h := l.intermediate.apply(k, x, cfg.HiddenAct)
	y = l.output.apply(k, k.feed(h, rows, cfg.HiddenAct, l.output.int8), "")
	return k.addNorm(x, nil, y, rows, l.outputNorm, eps, next)
}

// feed converts the output of a linear layer to the input of the next one. For an int8 layer it also applies the
// activation function.
func (k kernels) feed(x linearOutput, rows int64, activation string, next *quantized) activations {
	if next == nil {
		return activations{values: x.values}
	}
	return k.quantize(x, rows, activation, next)
}

// pickRows selects rows of x as the input of a linear layer.
func (k kernels) pickRows(x activations, rows *ts.Tensor) activations {
	if x.quantized == nil {
		return activations{values: k.pick(x.values, rows)}
	}
	return activations{quantized: k.pick(x.quantized, rows), scale: k.pick(x.scale, rows)}
}
