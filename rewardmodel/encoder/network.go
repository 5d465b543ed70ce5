package encoder

import (
	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"

	"assay/rewardmodel/checkpoint"
)

// dense is a linear layer: weight [out, in], bias [out], or nil without one.
type dense struct{ weight, bias *ts.Tensor }

// norm is a layer normalization: weight and bias [hidden]; the bias is nil without one.
type norm struct{ weight, bias *ts.Tensor }

// layer is one Transformer layer, with post-normalization as in BERT, or with pre-normalization as in ModernBERT, where
// outputNorm precedes the feed-forward layer and intermediate also computes its gate. qkv holds the query, key and value projections
// stacked as [3*hidden, hidden], so that one matrix multiplication computes all three.
type layer struct {
	qkv, attended        dense
	attentionNorm        norm
	intermediate, output dense
	outputNorm           norm
	positions            dense // DeBERTa's projections of relative positions, query above key; nil without them
}

// network is the encoder and its classifier. Rows 2a and 2a+1 of out are the violation and compliance of aspect a.
type network struct {
	cfg       checkpoint.Config
	device    gotch.Device
	kind      gotch.DType // of the matrix multiplications
	stream    gotch.DType // of the residual stream and the layer normalizations
	word      *ts.Tensor  // [vocab, hidden]
	position  *ts.Tensor  // [positions, hidden]; nil for a DeBERTa without absolute positions
	tokenType *ts.Tensor  // [types, hidden]; nil for a model without token types
	embedNorm norm
	relative  relative // DeBERTa's
	modern    modern   // ModernBERT's
	layers    []layer
	training  bool      // a backward pass will follow
	scale     []float64 // of attention scores
	pool      dense     // [hidden, hidden]: RoBERTa's classifier.dense, BERT's pooler
	out       dense     // [2*aspects, hidden]
	aspects   []string
	contexts  bool // whether sequences may have a context, with token type 1
}

// cast returns the same network with its matrix multiplications in kind, as tensors of scope: gradients flow back through
// the casts. The residual stream stays as it is, as under PyTorch's autocast: in bf16 it would round away small terms that a
// layer adds. Embeddings and classifier are not cast: the former are lookups, and the
// latter determines the resolution of the score.
func (n *network) cast(scope *tensorScope, kind gotch.DType) *network {
	if kind == n.kind {
		return n
	}
	d := func(d dense) dense {
		if d.weight == nil {
			return d
		}
		c := dense{weight: scope.cast(d.weight, kind)}
		if d.bias != nil {
			c.bias = scope.cast(d.bias, kind)
		}
		return c
	}
	c := *n
	c.kind = kind
	c.layers = make([]layer, len(n.layers))
	for i, l := range n.layers {
		c.layers[i] = layer{d(l.qkv), d(l.attended), l.attentionNorm, d(l.intermediate), d(l.output), l.outputNorm, d(l.positions)}
	}
	return &c
}

// dropouts are the probabilities of a forward pass in training; all zero in inference. That of the embeddings is
// ModernBERT's: elsewhere it is hidden.
type dropouts struct{ hidden, attention, classifier, embedding float64 }

// firstPosition is the position number of the first token: RoBERTa counts from PadID+1.
func (n *network) firstPosition() int {
	if n.cfg.ModelType == checkpoint.Roberta {
		return n.cfg.PadID + 1
	}
	return 0
}

func (n *network) maxLength() int { return n.cfg.MaxPositions - n.firstPosition() }

// forward computes the logits [sequences, 2*aspects] of a packed batch, in packed order and float32.
func (n *network) forward(scope *tensorScope, p *packed, drop dropouts) *ts.Tensor {
	return n.classify(scope, n.encode(scope, p, drop), drop)
}

// encode computes the last hidden state of each sequence's first token, or with mean pooling that of all its tokens,
// [sequences, hidden] in float32.
func (n *network) encode(scope *tensorScope, p *packed, drop dropouts) *ts.Tensor {
	if n.isModern() {
		return n.encodeModern(scope, p, drop)
	}
	hidden, eps := int64(n.cfg.HiddenSize), n.cfg.LayerNormEps
	ids, positions := scope.int64s(p.ids, n.device), scope.int64s(p.positions, n.device)

	x := scope.cast(scope.embedding(n.word, ids), gotch.Float)
	if n.position != nil {
		x = scope.add(x, scope.cast(scope.embedding(n.position, positions), gotch.Float))
	}
	switch {
	case p.types != nil:
		x = scope.add(x, scope.cast(scope.embedding(n.tokenType, scope.int64s(p.types, n.device)), gotch.Float))
	case n.tokenType != nil:
		x = scope.add(x, scope.cast(scope.at(n.tokenType, 0, 0), gotch.Float))
	}
	x = scope.dropout(scope.layerNorm(x, n.embedNorm, hidden, eps), drop.hidden)
	x = scope.cast(x, n.stream)

	away := n.distances(scope, p)
	for i, l := range n.layers {
		x = scope.nested(func(s *tensorScope) *ts.Tensor { return n.layer(s, p, l, x, away, i == len(n.layers)-1, drop) })
	}
	return scope.cast(x, gotch.Float)
}

// layer runs one layer on the tokens x [tokens, hidden]. The classifier reads only first tokens, so the last layer
// computes everything after attention for those only, [sequences, hidden], and only keys and values of contexts.
func (n *network) layer(scope *tensorScope, p *packed, l layer, x *ts.Tensor, away *distances, last bool, drop dropouts) *ts.Tensor {
	hidden, eps := int64(n.cfg.HiddenSize), n.cfg.LayerNormEps
	qkv := scope.linear(scope.cast(x, n.kind), l.qkv.weight, l.qkv.bias)
	attended := n.attend(scope, p, qkv, n.bias(scope, p, l, away, drop.hidden), last, drop.attention)
	attended = scope.linear(attended, l.attended.weight, l.attended.bias)
	if last {
		rows := scope.int64s(p.first, n.device)
		attended, x = scope.pick(attended, rows), scope.pick(x, rows)
	}
	x = scope.layerNorm(scope.add(x, scope.cast(scope.dropout(attended, drop.hidden), n.stream)), l.attentionNorm, hidden, eps)
	f := scope.activation(scope.linear(scope.cast(x, n.kind), l.intermediate.weight, l.intermediate.bias), n.cfg.HiddenAct)
	f = scope.dropout(scope.linear(f, l.output.weight, l.output.bias), drop.hidden)
	return scope.layerNorm(scope.add(x, scope.cast(f, n.stream)), l.outputNorm, hidden, eps)
}

// classify maps first tokens [sequences, hidden] to logits [sequences, 2*aspects].
func (n *network) classify(scope *tensorScope, x *ts.Tensor, drop dropouts) *ts.Tensor {
	x = scope.dropout(x, n.poolDropout(drop))
	x = scope.activation(scope.linear(x, n.pool.weight, n.pool.bias), n.poolActivation())
	if n.isModern() {
		x = scope.layerNorm(x, n.modern.headNorm, int64(n.cfg.HiddenSize), n.cfg.LayerNormEps)
	}
	return scope.linear(scope.dropout(x, drop.classifier), n.out.weight, n.out.bias)
}
