package tokenizer

import "slices"

// mergeQueue holds the merges that are possible, by rank and then by position.
// A long word has many merges of the same rank, so only the ranks are kept in a
// heap; the positions of a rank are a list, which comes out nearly in order.
type mergeQueue struct {
	ranks   []uint32       // a binary min-heap, each rank once
	heads   []int32        // by rank: 1 + index in waiting of its latest entry, or 0
	waiting []waitingMerge // all entries of the word, also those that are done
	batch   []int32        // what pop returned last
}

type waitingMerge struct {
	position int32
	before   int32 // the entry of the same rank before this one, as in heads
}

// reset empties the queue for ranks below limit.
func (q *mergeQueue) reset(limit int) {
	if len(q.heads) < limit {
		q.heads = make([]int32, limit)
	}
	q.ranks, q.waiting = q.ranks[:0], q.waiting[:0] // heads are 0 again once all is popped
}

// push adds a merge, unless its rank is noMerge.
func (q *mergeQueue) push(rank uint32, position int32) {
	if rank == noMerge {
		return
	}
	if q.heads[rank] == 0 {
		q.pushRank(rank)
	}
	q.waiting = append(q.waiting, waitingMerge{position: position, before: q.heads[rank]})
	q.heads[rank] = int32(len(q.waiting))
}

// pop removes all merges of the lowest rank and returns their positions in
// order, valid until the next call.
func (q *mergeQueue) pop() (uint32, []int32) {
	rank := q.popRank()
	q.batch = q.batch[:0]
	for i := q.heads[rank]; i != 0; i = q.waiting[i-1].before {
		q.batch = append(q.batch, q.waiting[i-1].position)
	}
	q.heads[rank] = 0
	slices.Reverse(q.batch)
	if !slices.IsSorted(q.batch) {
		slices.Sort(q.batch)
	}
	return rank, q.batch
}

func (q *mergeQueue) pushRank(rank uint32) {
	q.ranks = append(q.ranks, rank)
	h, i := q.ranks, len(q.ranks)-1
	for parent := (i - 1) / 2; i > 0 && h[parent] > rank; parent = (i - 1) / 2 {
		h[i], i = h[parent], parent
	}
	h[i] = rank
}

func (q *mergeQueue) popRank() uint32 {
	lowest, rank := q.ranks[0], q.ranks[len(q.ranks)-1]
	q.ranks = q.ranks[:len(q.ranks)-1]
	h, i := q.ranks, 0
	if len(h) == 0 {
		return lowest
	}
	for child := 1; child < len(h); child = 2*i + 1 {
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if h[child] >= rank {
			break
		}
		h[i], i = h[child], child
	}
	h[i] = rank
	return lowest
}
