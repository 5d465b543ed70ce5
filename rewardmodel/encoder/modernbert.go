package encoder

import (
	"fmt"
	"math"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"

	"assay/rewardmodel/checkpoint"
)

// modern is what a ModernBERT has beyond the parts of a network: its layers normalize their input instead of their output,
// so a norm follows the last one, and another one the first layer of the classifier.
type modern struct {
	finalNorm, headNorm norm
	global, local       *rotations // of the two kinds of layers
}

// rotations are the angles of rotary positions (Su et al. 2021, "RoFormer"): dimension k of a head is rotated with
// dimension k+size/2 by position * theta^(-2k/size). The tables grow with the longest sequence; use them on the libtorch
// thread only.
type rotations struct {
	frequencies []float32 // [size/2]
	cos, sin    []float32 // [positions, size/2]
}

// newRotations rounds frequencies as PyTorch does: at large positions, the angles depend on their last bits.
func newRotations(theta float64, size int) *rotations {
	r := &rotations{frequencies: make([]float32, size/2)}
	for k := range r.frequencies {
		exponent := float32(2*k) / float32(size)
		r.frequencies[k] = 1 / float32(math.Pow(theta, float64(exponent)))
	}
	return r
}

// grow computes the angles of the first n positions.
func (r *rotations) grow(n int) {
	for at := len(r.cos) / len(r.frequencies); at < n; at++ {
		for _, f := range r.frequencies {
			sin, cos := math.Sincos(float64(float32(at) * f))
			r.cos, r.sin = append(r.cos, float32(cos)), append(r.sin, float32(sin))
		}
	}
}

// angles are the cosines and sines for the tokens of a batch, [tokens, 1, size/2].
type angles struct{ cos, sin *ts.Tensor }

func (r *rotations) angles(scope *tensorScope, p *packed, device gotch.Device) angles {
	half := len(r.frequencies)
	r.grow(int(p.longest()))
	cos, sin := make([]float32, 0, len(p.positions)*half), make([]float32, 0, len(p.positions)*half)
	for _, at := range p.positions {
		cos = append(cos, r.cos[int(at)*half:][:half]...)
		sin = append(sin, r.sin[int(at)*half:][:half]...)
	}
	shape := []int64{int64(len(p.positions)), 1, int64(half)}
	return angles{scope.float32s(cos, device, shape...), scope.float32s(sin, device, shape...)}
}

// isModern reports whether the network is a ModernBERT.
func (n *network) isModern() bool { return n.cfg.ModelType == checkpoint.ModernBert }

// modern loads the layers of a ModernBERT.
func (l *loader) modern(n *network) {
	kind, m := l.kind, n.cfg.Modern
	size := n.cfg.HiddenSize / n.cfg.Heads
	n.modern.global, n.modern.local = newRotations(m.GlobalTheta, size), newRotations(m.LocalTheta, size)
	n.embedNorm = l.optionalNorm(gotch.Float, "embeddings.norm", m.NormBias)
	for i := range n.layers {
		at := fmt.Sprintf("layers.%d.", i)
		if i > 0 {
			n.layers[i].attentionNorm = l.optionalNorm(kind, at+"attn_norm", m.NormBias)
		}
		n.layers[i].qkv = l.optionalDense(kind, at+"attn.Wqkv", m.AttentionBias)
		n.layers[i].attended = l.optionalDense(kind, at+"attn.Wo", m.AttentionBias)
		n.layers[i].outputNorm = l.optionalNorm(kind, at+"mlp_norm", m.NormBias)
		n.layers[i].intermediate = l.optionalDense(kind, at+"mlp.Wi", m.MLPBias)
		n.layers[i].output = l.optionalDense(kind, at+"mlp.Wo", m.MLPBias)
	}
	n.modern.finalNorm = l.optionalNorm(gotch.Float, "final_norm", m.NormBias)
}

// modernHead loads the classifier up to its last layer. A checkpoint without one gets a randomly initialized one.
func (l *loader) modernHead(n *network) dense {
	h, m := n.cfg.HiddenSize, n.cfg.Modern
	_, hasDense := l.ckpt.Info("head.dense.weight")
	_, hasNorm := l.ckpt.Info("head.norm.weight")
	if hasDense && hasNorm {
		n.modern.headNorm = l.optionalNorm(gotch.Float, "head.norm", m.NormBias)
		return l.optionalDense(gotch.Float, "head.dense", m.HeadBias)
	}
	ones := make([]float32, h)
	for i := range ones {
		ones[i] = 1
	}
	pool := dense{weight: l.randomMatrix("head.dense.weight", h, h)}
	if m.HeadBias {
		pool.bias = l.zeros("head.dense.bias", h)
	}
	n.modern.headNorm = norm{weight: l.values("head.norm.weight", ones, h)}
	if m.NormBias {
		n.modern.headNorm.bias = l.zeros("head.norm.bias", h)
	}
	return pool
}

func (l *loader) optionalDense(kind gotch.DType, name string, bias bool) dense {
	if bias {
		return l.dense(kind, name)
	}
	return dense{weight: l.tensor(kind, name+".weight")}
}

func (l *loader) optionalNorm(kind gotch.DType, name string, bias bool) norm {
	if bias {
		return l.norm(kind, name)
	}
	return norm{weight: l.tensor(kind, name+".weight")}
}

// encodeModern is encode for a ModernBERT, whose classifier may read the mean of all tokens instead of the first.
func (n *network) encodeModern(scope *tensorScope, p *packed, drop dropouts) *ts.Tensor {
	hidden, eps, m := int64(n.cfg.HiddenSize), n.cfg.LayerNormEps, n.cfg.Modern
	x := scope.cast(scope.embedding(n.word, scope.int64s(p.ids, n.device)), gotch.Float)
	x = scope.dropout(scope.layerNorm(x, n.embedNorm, hidden, eps), drop.embedding)
	x = scope.cast(x, n.stream)
	all := n.bias(scope, p, layer{}, nil, 0)
	near := n.withinWindow(scope, p, all)
	global, local := n.modern.global.angles(scope, p, n.device), n.modern.local.angles(scope, p, n.device)
	for i, l := range n.layers {
		add, rotated := all, global
		if m.Local[i] {
			add, rotated = near, local
		}
		firstOnly := i == len(n.layers)-1 && !m.MeanPooling
		x = scope.nested(func(s *tensorScope) *ts.Tensor { return n.modernLayer(s, p, l, x, rotated, add, firstOnly, drop) })
	}
	x = scope.layerNorm(scope.cast(x, gotch.Float), n.modern.finalNorm, hidden, eps)
	if m.MeanPooling {
		x = scope.matmul(scope.float32s(p.means(), n.device, int64(len(p.first)), int64(len(p.ids))), x)
	}
	return x
}

// modernLayer runs one layer on the tokens x [tokens, hidden]. With firstOnly, it computes everything after attention for
// first tokens only, [sequences, hidden].
func (n *network) modernLayer(scope *tensorScope, p *packed, l layer, x *ts.Tensor, rotated angles, add bias, firstOnly bool, drop dropouts) *ts.Tensor {
	hidden, eps := int64(n.cfg.HiddenSize), n.cfg.LayerNormEps
	y := x
	if l.attentionNorm.weight != nil { // the norm of the embeddings precedes the first layer
		y = scope.layerNorm(x, l.attentionNorm, hidden, eps)
	}
	qkv := n.rotate(scope, scope.linear(scope.cast(y, n.kind), l.qkv.weight, l.qkv.bias), rotated)
	attended := scope.linear(n.attend(scope, p, qkv, add, firstOnly, drop.attention), l.attended.weight, l.attended.bias)
	if firstOnly {
		rows := scope.int64s(p.first, n.device)
		attended, x = scope.pick(attended, rows), scope.pick(x, rows)
	}
	x = scope.add(x, scope.cast(scope.dropout(attended, drop.attention), n.stream))
	y = scope.cast(scope.layerNorm(x, l.outputNorm, hidden, eps), n.kind)
	width := int64(n.cfg.Intermediate)
	parts := scope.splitColumns(scope.linear(y, l.intermediate.weight, l.intermediate.bias), 1, width, width)
	f := scope.dropout(scope.mul(scope.activation(parts[0], n.cfg.HiddenAct), parts[1]), drop.hidden)
	return scope.add(x, scope.cast(scope.linear(f, l.output.weight, l.output.bias), n.stream))
}

// rotate applies rotary positions to the queries and keys of qkv [tokens, 3*hidden], in float32.
func (n *network) rotate(scope *tensorScope, qkv *ts.Tensor, by angles) *ts.Tensor {
	hidden, heads := int64(n.cfg.HiddenSize), int64(n.cfg.Heads)
	half := hidden / heads / 2
	return scope.nested(func(s *tensorScope) *ts.Tensor {
		parts := s.splitColumns(qkv, 1, 2*hidden, hidden)
		x := s.splitColumns(s.cast(s.reshape(parts[0], -1, 2*heads, 2*half), gotch.Float), 2, half, half)
		a := s.subtract(s.mul(x[0], by.cos), s.mul(x[1], by.sin))
		b := s.add(s.mul(x[1], by.cos), s.mul(x[0], by.sin))
		turned := s.cast(s.reshape(s.joinColumns(2, a, b), -1, 2*hidden), n.kind)
		return s.joinColumns(1, turned, parts[1])
	})
}

// beyondWindow is added to the score of a token outside the window. It is finite, because the padding of a group may have
// no other tokens in its window, and a softmax of only -Inf is NaN; any score plus it is this number.
const beyondWindow = -1e30

// withinWindow is the bias of local layers: each token attends to those within the window. all is the bias of the others.
func (n *network) withinWindow(scope *tensorScope, p *packed, all bias) bias {
	window := n.cfg.Modern.Window()
	masks := make([]*ts.Tensor, len(p.groups))
	for i, gr := range p.groups {
		length := int(gr.length)
		if length-1 <= window {
			continue
		}
		mask := make([]float32, length*length)
		for query := range length {
			for key := range length {
				if max(query-key, key-query) > window {
					mask[query*length+key] = beyondWindow
				}
			}
		}
		masks[i] = scope.cast(scope.float32s(mask, n.device, 1, 1, gr.length, gr.length), n.kind)
	}
	return func(scope *tensorScope, group int, qkv *ts.Tensor) *ts.Tensor {
		if masks[group] == nil {
			return all(scope, group, qkv)
		}
		return masks[group]
	}
}

// means is the matrix [sequences, tokens] that maps tokens to the mean of each sequence.
func (p *packed) means() []float32 {
	weights := make([]float32, len(p.first)*len(p.ids))
	for i, length := range p.lengths {
		for k := range length {
			weights[i*len(p.ids)+int(p.first[i]+k)] = 1 / float32(length)
		}
	}
	return weights
}

// splitColumns splits the dimension dim into parts of the given sizes.
func (s *tensorScope) splitColumns(x *ts.Tensor, dim int64, sizes ...int64) []*ts.Tensor {
	return s.several("split", len(sizes), func() ([]*ts.Tensor, error) { return x.SplitWithSizes(sizes, dim) })
}

func (s *tensorScope) joinColumns(dim int64, parts ...*ts.Tensor) *ts.Tensor {
	return s.do("cat", func() (*ts.Tensor, error) { return ts.Cat(parts, dim) })
}

func (s *tensorScope) subtract(a, b *ts.Tensor) *ts.Tensor {
	return s.do("sub", func() (*ts.Tensor, error) { return a.Sub(b, false) })
}
