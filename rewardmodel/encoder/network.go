package encoder

import (
	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"

	"assay/rewardmodel/checkpoint"
)

// dense is a linear layer: weight [out, in], bias [out].
type dense struct{ weight, bias *ts.Tensor }

// norm is a layer normalization: weight and bias [hidden].
type norm struct{ weight, bias *ts.Tensor }

// layer is one Transformer layer with post-normalization, as in BERT. qkv holds the query, key and value projections
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
	kind      gotch.DType // of the layers' weights and activations
	word      *ts.Tensor  // [vocab, hidden]
	position  *ts.Tensor  // [positions, hidden]; nil for a DeBERTa without absolute positions
	tokenType *ts.Tensor  // [types, hidden]; nil for a model without token types
	embedNorm norm
	relative  relative // DeBERTa's
	layers    []layer
	training  bool      // a backward pass will follow
	scale     []float64 // of attention scores
	pool      dense     // [hidden, hidden]: RoBERTa's classifier.dense, BERT's pooler
	out       dense     // [2*aspects, hidden]
	aspects   []string
	contexts  bool // whether sequences may have a context, with token type 1
}

// cast returns the same network with its layers in kind, as tensors of g: gradients flow back through the casts.
// Embeddings and classifier are not cast: the former are lookups, and the latter determines the resolution of the score.
func (n *network) cast(g *tensorScope, kind gotch.DType) *network {
	if kind == n.kind {
		return n
	}
	d := func(d dense) dense {
		if d.weight == nil {
			return d
		}
		return dense{g.cast(d.weight, kind), g.cast(d.bias, kind)}
	}
	m := func(m norm) norm { return norm{g.cast(m.weight, kind), g.cast(m.bias, kind)} }
	c := *n
	c.kind = kind
	c.layers = make([]layer, len(n.layers))
	for i, l := range n.layers {
		c.layers[i] = layer{d(l.qkv), d(l.attended), m(l.attentionNorm), d(l.intermediate), d(l.output), m(l.outputNorm), d(l.positions)}
	}
	return &c
}

// dropouts are the probabilities of a forward pass in training; all zero in inference.
type dropouts struct{ hidden, attention, classifier float64 }

// firstPosition is the position number of the first token: RoBERTa counts from PadID+1.
func (n *network) firstPosition() int {
	if n.cfg.ModelType == checkpoint.Roberta {
		return n.cfg.PadID + 1
	}
	return 0
}

func (n *network) maxLength() int { return n.cfg.MaxPositions - n.firstPosition() }

// forward computes the logits [sequences, 2*aspects] of a packed batch, in packed order and float32.
func (n *network) forward(g *tensorScope, p *packed, drop dropouts) *ts.Tensor {
	return n.classify(g, n.encode(g, p, drop), drop)
}

// encode computes the last hidden state of each sequence's first token, [sequences, hidden] in float32.
func (n *network) encode(g *tensorScope, p *packed, drop dropouts) *ts.Tensor {
	hidden, eps := int64(n.cfg.HiddenSize), n.cfg.LayerNormEps
	ids, positions := g.int64s(p.ids, n.device), g.int64s(p.positions, n.device)

	x := g.cast(g.embedding(n.word, ids), gotch.Float)
	if n.position != nil {
		x = g.add(x, g.cast(g.embedding(n.position, positions), gotch.Float))
	}
	switch {
	case p.types != nil:
		x = g.add(x, g.cast(g.embedding(n.tokenType, g.int64s(p.types, n.device)), gotch.Float))
	case n.tokenType != nil:
		x = g.add(x, g.cast(g.at(n.tokenType, 0, 0), gotch.Float))
	}
	x = g.dropout(g.layerNorm(x, n.embedNorm, hidden, eps), drop.hidden)
	x = g.cast(x, n.kind)

	away := n.distances(g, p)
	for i, l := range n.layers {
		x = g.nested(func(s *tensorScope) *ts.Tensor { return n.layer(s, p, l, x, away, i == len(n.layers)-1, drop) })
	}
	return g.cast(x, gotch.Float)
}

// layer runs one layer on the tokens x [tokens, hidden]. The classifier reads only first tokens, so the last layer
// computes everything after attention for those only, [sequences, hidden], and only keys and values of contexts.
func (n *network) layer(g *tensorScope, p *packed, l layer, x *ts.Tensor, away *distances, last bool, drop dropouts) *ts.Tensor {
	hidden, eps := int64(n.cfg.HiddenSize), n.cfg.LayerNormEps
	qkv := g.linear(x, l.qkv.weight, l.qkv.bias)
	attended := n.attend(g, p, qkv, n.bias(g, p, l, away, drop.hidden), last, drop.attention)
	attended = g.linear(attended, l.attended.weight, l.attended.bias)
	if last {
		rows := g.int64s(p.first, n.device)
		attended, x = g.pick(attended, rows), g.pick(x, rows)
	}
	x = g.layerNorm(g.add(x, g.dropout(attended, drop.hidden)), l.attentionNorm, hidden, eps)
	f := g.activation(g.linear(x, l.intermediate.weight, l.intermediate.bias), n.cfg.HiddenAct)
	f = g.dropout(g.linear(f, l.output.weight, l.output.bias), drop.hidden)
	return g.layerNorm(g.add(x, f), l.outputNorm, hidden, eps)
}

// classify maps first tokens [sequences, hidden] to logits [sequences, 2*aspects].
func (n *network) classify(g *tensorScope, x *ts.Tensor, drop dropouts) *ts.Tensor {
	x = g.dropout(x, n.poolDropout(drop))
	x = g.activation(g.linear(x, n.pool.weight, n.pool.bias), n.poolActivation())
	return g.linear(g.dropout(x, drop.classifier), n.out.weight, n.out.bias)
}
