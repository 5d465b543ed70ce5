package encoder

import (
	"github.com/sugarme/gotch/ts"
)

// EmbeddingRows says which rows of the word embeddings an optimizer step updates. Most rows of a vocabulary never occur
// in a training set, and a step that writes them all spends most of its time there.
type EmbeddingRows string

const (
	// DenseRows updates every row as Adam does. A row that no batch has held yet has no gradient and no moments, so
	// only the rows seen so far are computed: the result is exactly Adam's.
	DenseRows EmbeddingRows = "dense"
	// TouchedRows updates the rows of the mini-batch alone: the moments of the others wait for their next gradient, as
	// in torch.optim.SparseAdam.
	TouchedRows EmbeddingRows = "touched"
)

// rows picks the rows of the word embeddings that take part in a step.
type rows struct {
	touched bool
	ids     []int64         // the rows that take part, in the order of their first occurrence
	at      map[int64]int64 // id -> its place in ids
}

func newRows(kind EmbeddingRows) *rows {
	return &rows{touched: kind == TouchedRows, at: map[int64]int64{}}
}

// take chooses the rows for the chunks of a mini-batch, renumbers the chunks' ids to them, and returns the rows as a
// tensor that gathers a gradient.
func (r *rows) take(g *graph, chunks []chunk, n *network) *ts.Tensor {
	if r.touched {
		r.ids = r.ids[:0]
		clear(r.at)
	}
	for _, c := range chunks {
		for k, id := range c.packed.ids {
			c.packed.ids[k] = r.place(id)
		}
	}
	index := g.int64s(r.ids, n.device)
	var picked *ts.Tensor
	func() {
		defer withoutGradients()()
		picked = g.pick(n.word, index)
	}()
	return g.do("requires_grad", func() (*ts.Tensor, error) { return picked.SetRequiresGrad(true, false) })
}

func (r *rows) place(id int64) int64 {
	at, ok := r.at[id]
	if !ok {
		at = int64(len(r.ids))
		r.ids, r.at[id] = append(r.ids, id), at
	}
	return at
}

// restore takes the rows with a second moment for those that have been seen: the others have had no gradient.
func (r *rows) restore(second []float32, hidden int) {
	r.ids = r.ids[:0]
	clear(r.at)
	for row := range len(second) / hidden {
		for _, v := range second[row*hidden : (row+1)*hidden] {
			if v != 0 {
				r.place(int64(row))
				break
			}
		}
	}
}
