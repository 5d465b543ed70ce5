package encoder

import (
	"github.com/sugarme/gotch/ts"
)

// EmbeddingRows selects which rows of the word embeddings an optimizer step updates. Most tokens of a vocabulary never
// occur in a training set, and a step that writes all rows spends most of its time on them.
type EmbeddingRows string

const (
	// DenseRows updates every row as Adam does. A row that no batch has contained yet has no gradient and no moments, so
	// only the rows seen so far are computed: the result is exactly Adam's.
	DenseRows EmbeddingRows = "dense"
	// TouchedRows updates only the rows of the mini-batch: the moments of the others do not change until their next
	// gradient, as in torch.optim.SparseAdam.
	TouchedRows EmbeddingRows = "touched"
)

// trainedRows selects the rows of the word embeddings that a step trains.
type trainedRows struct {
	touched bool
	ids     []int64         // the trained rows, in the order of their first occurrence
	at      map[int64]int64 // id -> its index in ids
}

func newTrainedRows(kind EmbeddingRows) *trainedRows {
	return &trainedRows{touched: kind == TouchedRows, at: map[int64]int64{}}
}

// take selects the rows of the chunks of a mini-batch, renumbers the chunks' ids accordingly, and returns the rows as a
// tensor that requires a gradient.
func (r *trainedRows) take(scope *tensorScope, chunks []chunk, n *network) *ts.Tensor {
	if r.touched {
		r.ids = r.ids[:0]
		clear(r.at)
	}
	for _, c := range chunks {
		for k, id := range c.packed.ids {
			c.packed.ids[k] = r.place(id)
		}
	}
	index := scope.int64s(r.ids, n.device)
	var picked *ts.Tensor
	func() {
		defer withoutGradients()()
		picked = scope.pick(n.word, index)
	}()
	return scope.do("requires_grad", func() (*ts.Tensor, error) { return picked.SetRequiresGrad(true, false) })
}

func (r *trainedRows) place(id int64) int64 {
	at, ok := r.at[id]
	if !ok {
		at = int64(len(r.ids))
		r.ids, r.at[id] = append(r.ids, id), at
	}
	return at
}

// restore marks the rows with a nonzero second moment as seen: the others have had no gradient.
func (r *trainedRows) restore(second []float32, hidden int) {
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
