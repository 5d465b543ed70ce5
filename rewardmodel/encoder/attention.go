package encoder

import (
	"math"
	"slices"

	"github.com/sugarme/gotch/ts"
)

// group is a run of sequences in a packed batch that share one attention call, padded to the length of the longest one.
// Only attention sees that padding: every other layer computes real tokens only.
type group struct {
	count, length int64
	tokens        int64     // real ones
	from          []int64   // [count*length] the row of the group at each padded position; nil when all lengths are equal
	to            []int64   // [tokens] the padded position of each row of the group
	mask          []float32 // [count*length] 0 for real tokens, -Inf for padding

	// With contexts, a sequence attends to the tokens of its context and to its own.
	keys    int64     // longest context of the group plus length; 0 if the group has no contexts
	keyRows []int64   // [count*keys] the row of the batch of each key
	keyMask []float32 // [count*keys] 0 for real keys, -Inf for padding
}

// A group accepts longer sequences while its padding stays below a share of its tokens, or below a number of tokens whose
// attention costs less than the overhead of another group.
const (
	paddingShare  = 0.25
	paddingTokens = 160
)

// maxKeys bounds the keys of a group with contexts, whose keys and values are copied for each sequence: those of a context
// that many short sequences share may take far more memory than the batch.
const maxKeys = 32 << 10

// groupsOf divides sequences of the given ascending lengths into groups.
func groupsOf(lengths []int64) []group {
	var groups []group
	for start := 0; start < len(lengths); {
		end, tokens := start, int64(0)
		for end < len(lengths) {
			real := tokens + lengths[end]
			padding := lengths[end]*int64(end+1-start) - real
			if float64(padding) > paddingShare*float64(real) && padding > paddingTokens {
				break
			}
			end, tokens = end+1, real
		}
		groups = append(groups, newGroup(lengths[start:end], tokens))
		start = end
	}
	return groups
}

func newGroup(lengths []int64, tokens int64) group {
	g := group{count: int64(len(lengths)), length: lengths[len(lengths)-1], tokens: tokens}
	if tokens == g.count*g.length {
		return g
	}
	row := int64(0)
	for i, length := range lengths {
		for k := range g.length {
			if k < length {
				g.to = append(g.to, int64(i)*g.length+k)
				g.from, g.mask = append(g.from, row+k), append(g.mask, 0)
			} else { // any row works, because no real token attends to it
				g.from, g.mask = append(g.from, row), append(g.mask, float32(math.Inf(-1)))
			}
		}
		row += length
	}
	return g
}

// addContexts adds the groups of the contexts and the keys of the groups of sequences that have any.
func (p *packed) addContexts() {
	first, length := p.contextRows()
	var groups []group
	start := 0
	for _, gr := range p.groups {
		end := start + int(gr.count)
		longest := slices.Max(length[start:end])
		if longest == 0 {
			groups, start = append(groups, gr), end
			continue
		}
		size := max(maxKeys/int(longest+gr.length), 1)
		for ; start < end; start = min(start+size, end) {
			groups = append(groups, p.groupWithKeys(start, min(start+size, end), first, length))
		}
	}
	own := groupsOf(p.contexts.lengths)
	p.groups, p.contexts.groups = append(groups, own...), len(own)
}

// groupWithKeys is the group of sequences start to end-1 with its keys: those of the context of each sequence, which
// contextRows describes, before its own.
func (p *packed) groupWithKeys(start, end int, first, length []int64) group {
	tokens := int64(0)
	for _, n := range p.lengths[start:end] {
		tokens += n
	}
	gr := newGroup(p.lengths[start:end], tokens)
	gr.keys = slices.Max(length[start:end]) + gr.length
	for s := start; s < end; s++ {
		rows := make([]int64, 0, gr.keys)
		for k := range length[s] {
			rows = append(rows, first[s]+k)
		}
		for k := range p.lengths[s] {
			rows = append(rows, p.first[s]+k)
		}
		for k := range gr.keys {
			if k < int64(len(rows)) {
				gr.keyRows, gr.keyMask = append(gr.keyRows, rows[k]), append(gr.keyMask, 0)
			} else { // any row works
				gr.keyRows, gr.keyMask = append(gr.keyRows, rows[0]), append(gr.keyMask, float32(math.Inf(-1)))
			}
		}
	}
	return gr
}

// attend runs self-attention over each group: qkv [tokens, 3*hidden] -> [tokens, hidden]. In the last layer, where
// nothing reads contexts, the result has only the tokens of sequences when there are contexts.
func (n *network) attend(scope *tensorScope, p *packed, qkv *ts.Tensor, add bias, last bool, dropout float64) *ts.Tensor {
	hidden := int64(n.cfg.HiddenSize)
	sizes := make([]int64, len(p.groups))
	for i, gr := range p.groups {
		sizes[i] = gr.tokens
	}
	if p.padding > 0 {
		sizes = append(sizes, p.padding)
	}
	parts := scope.split(qkv, sizes)
	var keyValue *ts.Tensor // [tokens, 2*hidden]
	if p.types != nil {
		keyValue = scope.columns(qkv, hidden, 2*hidden)
	}
	for i, gr := range p.groups {
		if scope.err != nil {
			return nil
		}
		if last && p.types != nil && i == len(p.groups)-p.contexts.groups {
			parts = parts[:i]
			break
		}
		rows := parts[i]
		parts[i] = scope.nested(func(s *tensorScope) *ts.Tensor { return n.attendGroup(s, i, gr, rows, keyValue, add, dropout) })
	}
	if at := len(p.groups); at < len(parts) { // padding: any values work
		parts[at] = scope.columns(parts[at], 0, hidden)
	}
	return scope.cat(parts)
}

// attendGroup runs self-attention over the i-th group: rows [tokens, 3*hidden] -> [tokens, hidden]. keyValue is the keys
// and values of the batch, for groups with contexts.
func (n *network) attendGroup(scope *tensorScope, i int, gr group, rows, keyValue *ts.Tensor, add bias, dropout float64) *ts.Tensor {
	hidden, heads := int64(n.cfg.HiddenSize), int64(n.cfg.Heads)
	if gr.from != nil {
		rows = scope.pick(rows, scope.int64s(gr.from, n.device))
	}
	mask := add(scope, i, rows)
	var query, key, value *ts.Tensor
	if gr.keys > 0 {
		mask = scope.add(mask, scope.cast(scope.float32s(gr.keyMask, n.device, gr.count, 1, 1, gr.keys), n.kind))
		query = scope.permute(scope.reshape(scope.columns(rows, 0, hidden), gr.count, gr.length, heads, hidden/heads), 0, 2, 1, 3)
		picked := scope.pick(keyValue, scope.int64s(gr.keyRows, n.device))
		split := scope.unbind(scope.permute(scope.reshape(picked, gr.count, gr.keys, 2, heads, hidden/heads), 2, 0, 3, 1, 4), 2)
		key, value = split[0], split[1]
	} else {
		if gr.from != nil {
			mask = scope.add(mask, scope.cast(scope.float32s(gr.mask, n.device, gr.count, 1, 1, gr.length), n.kind))
		}
		split := scope.unbind(scope.permute(scope.reshape(rows, gr.count, gr.length, 3, heads, hidden/heads), 2, 0, 3, 1, 4), 3)
		query, key, value = split[0], split[1], split[2]
	}
	fused := scope.attention
	if n.training {
		fused = scope.attentionByMatmul
	}
	o := scope.reshape(scope.permute(fused(query, key, value, mask, n.scale, dropout), 0, 2, 1, 3), gr.count*gr.length, hidden)
	if gr.from != nil {
		o = scope.pick(o, scope.int64s(gr.to, n.device))
	}
	return o
}

// attentionByMatmul is attention as two matrix multiplications and a softmax. It needs memory for the scores, but its
// backward pass is several times faster than that of the fused kernel, ten times in bf16.
func (s *tensorScope) attentionByMatmul(q, k, v, mask *ts.Tensor, scale []float64, dropout float64) *ts.Tensor {
	scores := s.add(s.matmul(s.times(q, scale[0]), s.permute(k, 0, 1, 3, 2)), mask)
	weights := s.do("softmax", func() (*ts.Tensor, error) { return scores.Softmax(-1, scores.DType(), false) })
	return s.matmul(s.dropout(weights, dropout), v)
}
