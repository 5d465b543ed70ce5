package encoder

import (
	"math"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"

	"assay/rewardmodel/checkpoint"
)

// relative is DeBERTa's embedding of relative positions. embedding is nil without relative attention, and the weights of
// norm are nil without normalization.
type relative struct {
	embedding *ts.Tensor // [2*span, hidden]; row span+r is for a query r places after its key
	norm      norm
}

// distances are the relative positions that occur in a packed batch.
type distances struct {
	rows  *ts.Tensor   // [reach, hidden] of the relative embedding
	index []*ts.Tensor // by group, [length, length]: the row for query i and key j
}

// distances looks up the relative positions of a batch; nil for a model without them.
func (n *network) distances(scope *tensorScope, p *packed) *distances {
	if n.relative.embedding == nil {
		return nil
	}
	d, longest := n.cfg.Disentangled, int(p.groups[len(p.groups)-1].length)
	span, bucket := d.Span(), buckets(d, longest)
	low, high := max(span-bucket[longest-1], 0), min(span+bucket[longest-1], 2*span-1)
	rows := scope.cast(scope.rows(n.relative.embedding, int64(low), int64(high-low+1)), gotch.Float)
	if n.relative.norm.weight != nil {
		rows = scope.layerNorm(rows, n.relative.norm, int64(n.cfg.HiddenSize), n.cfg.LayerNormEps)
	}
	found := &distances{rows: scope.cast(rows, n.kind), index: make([]*ts.Tensor, len(p.groups))}
	for i, gr := range p.groups {
		length := int(gr.length)
		index := make([]int64, 0, length*length)
		for query := range length {
			for key := range length {
				r := bucket[max(query-key, key-query)]
				if key > query {
					r = -r
				}
				index = append(index, int64(min(max(span+r, 0), 2*span-1)-low))
			}
		}
		found.index[i] = scope.reshape(scope.int64s(index, n.device), gr.length, gr.length)
	}
	return found
}

// buckets maps the distances 0 to n-1 to those that have an embedding: distances up to half the buckets to themselves,
// larger ones to logarithmic buckets, in float32 as transformers computes them.
func buckets(d checkpoint.Disentangled, n int) []int {
	out := make([]int, n)
	middle := d.Buckets / 2
	var scale float32
	if d.Buckets > 0 {
		scale = float32(math.Log(float64(float32(float64(d.MaxRelative-1) / float64(middle)))))
	}
	for i := range out {
		out[i] = i
		if d.Buckets > 0 && i > middle {
			far := float32(math.Log(float64(float32(i)/float32(middle)))) / scale * float32(middle-1)
			out[i] = int(math.Ceil(float64(far))) + middle
		}
	}
	return out
}

// bias returns the bias of a group's attention scores: it takes the index of the group in the batch and its rows of qkv,
// [count*length, 3*hidden], and returns a tensor that broadcasts to [count, heads, length, length].
type bias func(scope *tensorScope, group int, qkv *ts.Tensor) *ts.Tensor

// bias computes the attention bias of a layer: zero except for DeBERTa, where it is the sum of the content-to-position
// and position-to-content terms (He et al. 2021, equation 4), scaled as the scores are.
func (n *network) bias(scope *tensorScope, p *packed, l layer, d *distances, dropout float64) bias {
	types := n.cfg.Disentangled
	if d == nil || !types.C2P && !types.P2C {
		// Nothing is masked, but libtorch 2.15 refuses the undefined tensor that gotch passes for "no mask".
		none := scope.cast(scope.float32s([]float32{0}, n.device, 1, 1, 1, 1), n.kind)
		return func(*tensorScope, int, *ts.Tensor) *ts.Tensor { return none }
	}
	heads, size := int64(n.cfg.Heads), int64(n.cfg.HiddenSize/n.cfg.Heads)
	query, key := n.project(scope, l, d, dropout)
	return func(scope *tensorScope, group int, qkv *ts.Tensor) *ts.Tensor {
		return scope.nested(func(s *tensorScope) *ts.Tensor {
			gr := p.groups[group]
			content := s.permute(s.reshape(qkv, gr.count*gr.length, 3, heads, size), 1, 2, 0, 3)
			index := s.expand(d.index[group], heads, gr.count, gr.length, gr.length)
			by := func(content, position *ts.Tensor) *ts.Tensor { // [heads, count, length, reach]
				product := s.matmul(content, s.permute(position, 0, 2, 1))
				return s.reshape(product, heads, gr.count, gr.length, -1)
			}
			var sum *ts.Tensor // [heads, count, query, key]
			if key != nil {
				sum = s.gather(by(s.at(content, 0, 0), key), index, 3)
			}
			if query != nil {
				p2c := s.gather(s.permute(by(s.at(content, 0, 1), query), 0, 1, 3, 2), index, 2)
				if sum == nil {
					sum = p2c
				} else {
					sum = s.add(sum, p2c)
				}
			}
			return s.permute(sum, 1, 0, 2, 3)
		})
	}
}

// project turns relative positions into a layer's queries (for p2c) and keys (for c2p), [heads, reach, head size] each
// or nil, scaled as the scores are.
func (n *network) project(scope *tensorScope, l layer, d *distances, dropout float64) (query, key *ts.Tensor) {
	types, hidden := n.cfg.Disentangled, int64(n.cfg.HiddenSize)
	from, to := int64(0), int64(2) // of the query's and the key's part
	if !types.P2C {
		from = 1
	}
	if !types.C2P {
		to = 1
	}
	by := l.positions
	if types.SharedKeys {
		by = dense{scope.rows(l.qkv.weight, from*hidden, (to-from)*hidden), scope.rows(l.qkv.bias, from*hidden, (to-from)*hidden)}
	}
	all := scope.times(scope.linear(scope.dropout(d.rows, dropout), by.weight, by.bias), n.scale[0])
	heads := int64(n.cfg.Heads)
	split := scope.permute(scope.reshape(all, -1, to-from, heads, hidden/heads), 1, 2, 0, 3)
	if types.P2C {
		query = scope.at(split, 0, 0)
	}
	if types.C2P {
		key = scope.at(split, 0, to-from-1)
	}
	return query, key
}

// scoreScale is the factor of attention scores: 1/sqrt(terms * head size), where content-to-position and
// position-to-content attention are each one more term.
func scoreScale(cfg checkpoint.Config) []float64 {
	terms := 1
	for _, more := range []bool{cfg.Disentangled.C2P, cfg.Disentangled.P2C} {
		if more {
			terms++
		}
	}
	return []float64{1 / math.Sqrt(float64(cfg.HiddenSize/cfg.Heads*terms))}
}

// poolDropout is the dropout before the pooling layer: RoBERTa uses the classifier's on both sides of it, BERT has none,
// and DeBERTa has a separate one, which is off when all others are.
func (n *network) poolDropout(drop dropouts) float64 {
	switch {
	case n.cfg.ModelType == checkpoint.Roberta:
		return drop.classifier
	case n.cfg.ModelType == checkpoint.DebertaV2 && drop != dropouts{}:
		return n.cfg.Disentangled.PoolerDropout
	}
	return 0
}

func (n *network) poolActivation() string {
	switch n.cfg.ModelType {
	case checkpoint.DebertaV2:
		return n.cfg.Disentangled.PoolerAct
	case checkpoint.ModernBert:
		return n.cfg.Modern.HeadAct
	}
	return checkpoint.Tanh
}

func (s *tensorScope) matmul(a, b *ts.Tensor) *ts.Tensor {
	return s.do("matmul", func() (*ts.Tensor, error) { return a.Matmul(b, false) })
}

// gather selects elements of x along the dimension dim by index.
func (s *tensorScope) gather(x, index *ts.Tensor, dim int64) *ts.Tensor {
	return s.do("gather", func() (*ts.Tensor, error) { return x.Gather(dim, index, false, false) })
}

func (s *tensorScope) expand(x *ts.Tensor, shape ...int64) *ts.Tensor {
	return s.do("expand", func() (*ts.Tensor, error) { return x.Expand(shape, false, false) })
}

// times multiplies by a number; unlike scale, it does not change x and has a gradient.
func (s *tensorScope) times(x *ts.Tensor, by float64) *ts.Tensor {
	return s.do("times", func() (*ts.Tensor, error) {
		scalar := ts.FloatScalar(by)
		t, err := x.MulScalar(scalar, false)
		if dropErr := scalar.Drop(); err == nil {
			err = dropErr
		}
		return t, err
	})
}
