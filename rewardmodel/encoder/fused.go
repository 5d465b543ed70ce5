package encoder

import (
	"slices"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"
	"golang.org/x/sys/cpu"
)

// fused is a network repacked for scoring on a CPU, with the weights in oneDNN's layout and everything between two matrix
// multiplications in one pass over each token (kernels.h). It computes what network computes, without padding and without a
// backward pass.
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

// fusedDense is a linear layer with out outputs, in oneDNN's layout.
type fusedDense struct {
	out          int64
	weight, bias *ts.Tensor
}

// classifierLayer is a linear layer of the classifier in the layout of kernels.dense: libtorch's adds in an order that
// depends on the number of rows.
type classifierLayer struct {
	in, out      int64
	weight, bias *ts.Tensor // [in, out rounded up to 16], [out rounded up to 16]
	activation   string     // that follows; "" for none
}

// fusable reports whether a network that is not computed in panels can be fused. DeBERTa's disentangled attention is not
// supported.
func fusable(n *network) bool {
	supported := n.kind == gotch.Float || n.kind == gotch.BFloat16 && cpu.X86.HasAVX512BF16
	return supported && !n.device.IsCuda() && !n.cfg.Disentangled.Relative
}

// apply multiplies x by the weights and applies the activation function.
func (d *fusedDense) apply(k kernels, x *ts.Tensor, activation string) linearOutput {
	return linearOutput{values: k.packedLinear(x, d.weight, d.bias, activation), columns: d.out}
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
	x := k.embed(n, f.embedNorm, scope.int64s(p.ids, n.device), scope.int64s(p.positions, n.device), types, f.kind)
	for i := range f.layers {
		last := i == len(f.layers)-1
		x = inScope(k, stream{normed: x}, func(k kernels) stream { return stream{normed: f.layer(k, &b, &f.layers[i], x, last)} }).normed
	}
	return scope.cast(x, gotch.Float)
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

// stream is the values of tokens between two layers. With pre-normalization it is their sum in float32, and the input of
// the next layer, which is its normalization; else sum is nil.
type stream struct{ sum, normed *ts.Tensor }

// tensors returns the tensors of x that are not nil.
func (x stream) tensors() []*ts.Tensor {
	if x.sum == nil {
		return []*ts.Tensor{x.normed}
	}
	return []*ts.Tensor{x.sum, x.normed}
}

// inScope runs a layer on x in a new tensorScope and frees x and all tensors of that scope except the result.
func inScope(k kernels, x stream, layer func(k kernels) stream) stream {
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

func (f *fused) layer(k kernels, b *fusedBatch, l *fusedLayer, x *ts.Tensor, last bool) *ts.Tensor {
	cfg := f.net.cfg
	hidden, eps := int64(cfg.HiddenSize), cfg.LayerNormEps
	var attended linearOutput
	var at *ts.Tensor
	rows := b.padded
	if last {
		rows, at = b.firsts, b.first
		q := l.query.apply(k, k.pick(x, at), "")
		kv := l.keyValue.apply(k, x, "")
		attended = k.attend(b.heads, q, kv, 0, hidden, true, rows, int64(b.sequences), f.kind)
	} else {
		qkv := l.query.apply(k, x, "")
		attended = k.attend(b.all, qkv, qkv, hidden, 2*hidden, false, rows, b.tokens, f.kind)
	}
	y := l.attended.apply(k, attended.values, "")
	x = k.addNorm(x, at, y, rows, l.attentionNorm, eps)
	h := l.intermediate.apply(k, x, cfg.HiddenAct)
	y = l.output.apply(k, h.values, "")
	return k.addNorm(x, nil, y, rows, l.outputNorm, eps)
}
