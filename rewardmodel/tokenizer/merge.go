package tokenizer

import (
	"slices"
)

// shortWord is the maximum length in bytes of a word whose merges are found by
// comparing all pairs each time; a queue is faster for longer words.
const shortWord = 64

// mergeShort merges a word of at most shortWord bytes: always the pair with the
// lowest rank, the leftmost of equals.
func (b *byteLevel) mergeShort(dst []int32, word []byte) []int32 {
	var ids [shortWord]int32
	var ranks [shortWord]uint32 // of the pair that starts here
	n := len(word)
	for i := range n {
		ids[i] = b.bytes[word[i]]
	}
	for i := range n - 1 {
		ranks[i] = b.pairs.rank(ids[i], ids[i+1])
	}
	for n > 1 {
		lowest, at := noMerge, 0
		for i, rank := range ranks[:n-1] {
			if rank < lowest {
				lowest, at = rank, i
			}
		}
		if lowest == noMerge {
			break
		}
		ids[at] = b.merged[lowest]
		copy(ids[at+1:n-1], ids[at+2:n])
		copy(ranks[at+1:n-1], ranks[at+2:n])
		n--
		if at > 0 {
			ranks[at-1] = b.pairs.rank(ids[at-1], ids[at])
		}
		if at < n-1 {
			ranks[at] = b.pairs.rank(ids[at], ids[at+1])
		}
	}
	return append(dst, ids[:n]...)
}

// symbol is a token in the linked list of a long word; id is dropped once the token
// is merged into the one before it.
type symbol struct {
	id         int32
	prev, next int32
}

const dropped = -1

// mergeScratch is the working memory of mergeLong.
type mergeScratch struct {
	symbols []symbol
	queue   mergeQueue
}

// mergeLong is mergeShort for a word of any length, in O(n log n): the pairs are in a
// queue by rank and position, and stale ones are skipped.
func (b *byteLevel) mergeLong(cancel *cancellation, dst []int32, word []byte) []int32 {
	s := b.scratch.Get().(*mergeScratch)
	defer b.scratch.Put(s)
	queue := &s.queue
	queue.reset(len(b.merged))
	symbols, n := s.symbols[:0], int32(len(word))
	for i := range n {
		if cancel.done(1) {
			break
		}
		symbols = append(symbols, symbol{id: b.bytes[word[i]], prev: i - 1, next: i + 1})
		if i > 0 {
			queue.push(b.pairs.rank(symbols[i-1].id, symbols[i].id), i-1)
		}
	}
	for len(queue.ranks) > 0 {
		rank, positions := queue.pop() // until the queue is empty, as its next word needs it
		for done, at := range positions {
			if cancel.done(1) {
				break
			}
			left := &symbols[at]
			if left.id == dropped || left.next == n {
				continue
			}
			right := &symbols[left.next]
			if b.pairs.rank(left.id, right.id) != rank {
				continue
			}
			left.id, right.id = b.merged[rank], dropped
			if left.next = right.next; left.next < n {
				symbols[left.next].prev = at
				queue.push(b.pairs.rank(left.id, symbols[left.next].id), at)
			}
			if left.prev >= 0 {
				queue.push(b.pairs.rank(symbols[left.prev].id, left.id), left.prev)
			}
			if len(queue.ranks) > 0 && queue.ranks[0] < rank { // a merge created a pair of lower rank: requeue the others
				for _, at := range positions[done+1:] {
					queue.push(rank, at)
				}
				break
			}
		}
	}
	if cancel.done(0) {
		return dst
	}
	for i := int32(0); i < n; i = symbols[i].next {
		dst = append(dst, symbols[i].id)
	}
	s.symbols = symbols
	return dst
}

// mergeQueue has the possible merges, by rank and then by position. A long word has
// many merges of the same rank, so only the ranks are in a heap; the positions of
// a rank are a list, which is nearly sorted.
type mergeQueue struct {
	ranks   []uint32       // a binary min-heap, each rank once
	heads   []int32        // by rank: 1 + index in waiting of its latest entry, or 0
	waiting []waitingMerge // all entries of the word, including popped ones
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
	q.ranks, q.waiting = q.ranks[:0], q.waiting[:0] // heads are 0 again once the queue is empty
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
