package encoder

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"assay/rewardmodel"
)

// packed is a batch in the layout of the network: sequences sorted by length, their tokens concatenated, followed by
// those of the distinct contexts.
type packed struct {
	order     []int   // packed position -> index in the caller's batch
	ids       []int64 // [tokens]
	positions []int64 // [tokens]
	types     []int64 // [tokens] token types; nil without contexts: all 0
	first     []int64 // row of each sequence's first token
	lengths   []int64 // of each sequence, ascending
	groups    []group // of sequences, then of contexts
	contexts  packedContexts
	padding   int64 // rows after the tokens that hold no data; see round
}

// packedContexts are the distinct contexts of a batch. A context attends to itself only, so its keys and values are the
// same for all sequences that share it.
type packedContexts struct {
	first   []int64 // row of each context's first token
	lengths []int64 // of each context, ascending
	of      []int   // by sequence in packed order: the index of its context, or -1
	groups  int     // number of groups
}

// contextType is the token type of a context, the second segment of BERT.
const contextType = 1

// contextID identifies the slice of a context.
type contextID struct {
	first  *int32
	length int
}

// contextOf returns the identity of a sequence's context; ok is false if it has none.
func contextOf(s rewardmodel.Sequence) (id contextID, ok bool) {
	if len(s.Context) == 0 {
		return contextID{}, false
	}
	return contextID{&s.Context[0], len(s.Context)}, true
}

// pack validates a batch of sequences against the model's vocabulary and positions and packs it.
func (n *network) pack(batch []rewardmodel.Sequence) (*packed, error) {
	p := &packed{order: make([]int, len(batch))}
	tokens := 0
	for i, seq := range batch {
		p.order[i] = i
		tokens += len(seq.IDs)
		if err := n.check(i, "", seq.IDs); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(p.order, func(a, b int) int { return cmp.Compare(len(batch[a].IDs), len(batch[b].IDs)) })
	p.ids, p.positions = make([]int64, 0, tokens), make([]int64, 0, tokens)
	for _, i := range p.order {
		p.first = append(p.first, int64(len(p.ids)))
		p.lengths = append(p.lengths, int64(len(batch[i].IDs)))
		n.add(p, batch[i].IDs)
	}
	p.groups = groupsOf(p.lengths)
	if err := n.packContexts(p, batch); err != nil {
		return nil, err
	}
	return p, nil
}

// check validates the tokens of sequence i, or of its context.
func (n *network) check(i int, what string, ids []int32) error {
	if len(ids) == 0 || len(ids) > n.maxLength() {
		return fmt.Errorf("encoder: sequence %d has %s%d tokens; the model accepts 1 to %d", i, what, len(ids), n.maxLength())
	}
	for _, id := range ids {
		if id < 0 || int(id) >= n.cfg.Vocab {
			return fmt.Errorf("encoder: sequence %d contains token %d, outside the vocabulary of %d", i, id, n.cfg.Vocab)
		}
	}
	return nil
}

// add appends tokens at the positions of a sequence.
func (n *network) add(p *packed, ids []int32) {
	for k, id := range ids {
		p.ids = append(p.ids, int64(id))
		p.positions = append(p.positions, int64(k+n.firstPosition()))
	}
}

// packContexts appends the distinct contexts of the batch; it changes nothing if there are none.
func (n *network) packContexts(p *packed, batch []rewardmodel.Sequence) error {
	var distinct []rewardmodel.Sequence
	at := map[contextID]int{}
	for i, seq := range batch {
		id, ok := contextOf(seq)
		if _, seen := at[id]; !ok || seen {
			continue
		}
		if !n.contexts {
			return fmt.Errorf("encoder: sequence %d has a context, but the model was not trained with context", i)
		}
		if err := n.check(i, "a context of ", seq.Context); err != nil {
			return err
		}
		at[id] = -1
		distinct = append(distinct, seq)
	}
	if len(distinct) == 0 {
		return nil
	}
	slices.SortStableFunc(distinct, func(a, b rewardmodel.Sequence) int { return cmp.Compare(len(a.Context), len(b.Context)) })
	c := &p.contexts
	p.types = make([]int64, len(p.ids))
	for i, seq := range distinct {
		id, _ := contextOf(seq)
		at[id] = i
		c.first = append(c.first, int64(len(p.ids)))
		c.lengths = append(c.lengths, int64(len(seq.Context)))
		n.add(p, seq.Context)
		for range seq.Context {
			p.types = append(p.types, contextType)
		}
	}
	for _, i := range p.order {
		index := -1
		if id, ok := contextOf(batch[i]); ok {
			index = at[id]
		}
		c.of = append(c.of, index)
	}
	p.addContexts()
	return nil
}

// contextRows are the first row and the length of each sequence's context, in packed order; the length is 0 without one.
func (p *packed) contextRows() (first, length []int64) {
	first, length = make([]int64, len(p.lengths)), make([]int64, len(p.lengths))
	for i, at := range p.contexts.of {
		if at >= 0 {
			first[i], length[i] = p.contexts.first[at], p.contexts.lengths[at]
		}
	}
	return first, length
}

// maxRun bounds the sequences that one thread runs attention for at a time.
const maxRun = 8

// runs divides sequences into runs that share a context, and appends one run per context. Run r is member[run[r]] to
// member[run[r+1]-1], of ascending length; a context follows the sequences in number.
func (p *packed) runs() (run, member []int64) {
	by := make([][]int64, len(p.contexts.first))
	for s, at := range p.contexts.of {
		if at >= 0 {
			by[at] = append(by[at], int64(s))
			continue
		}
		run, member = append(run, int64(len(member))), append(member, int64(s))
	}
	for _, sharing := range by {
		for part := range slices.Chunk(sharing, maxRun) {
			run, member = append(run, int64(len(member))), append(member, part...)
		}
	}
	for at := range p.contexts.first {
		run, member = append(run, int64(len(member))), append(member, int64(len(p.lengths)+at))
	}
	return append(run, int64(len(member))), member
}

// longest is the maximum number of tokens that a token attends to.
func (p *packed) longest() int64 {
	longest := slices.Max(p.lengths)
	for i, at := range p.contexts.of {
		if at >= 0 {
			longest = max(longest, p.contexts.lengths[at]+p.lengths[i])
		}
	}
	return longest
}

// round pads a batch to one of a few sizes with rows that no sequence attends to. oneDNN compiles and caches kernels for
// every number of rows, up to hundreds of megabytes (docs/benchmarks.md, Memory).
func (p *packed) round() {
	p.padding = int64(roundUp(len(p.ids)) - len(p.ids))
	for range p.padding {
		p.ids, p.positions = append(p.ids, p.ids[0]), append(p.positions, p.positions[0])
		if p.types != nil {
			p.types = append(p.types, 0)
		}
	}
	for range roundUp(len(p.first)) - len(p.first) {
		p.first = append(p.first, 0)
	}
}

// minRows is the least number of rows of a batch. With a single row, oneDNN multiplies a vector by a matrix and adds in
// another order, so that a score would depend on whether its batch has other rows.
const minRows = 2

// roundUp rounds n up to minRows, or to one of four sizes per power of two; it does not change 2 to 8. A batch that is
// limited by its budget is just below one of these sizes.
func roundUp(n int) int {
	n = max(n, minRows)
	unit := 1 << max(0, bits.Len(uint(n-1))-3)
	return (n + unit - 1) / unit * unit
}
