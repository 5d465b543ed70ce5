package tokenizer

// shortWord is the longest word, in bytes, whose merges are found by looking at
// all pairs each time; from there on a heap is faster, and it stays linear.
const shortWord = 32

// mergeShort applies the merges to a word of at most shortWord bytes: always
// the pair of the lowest rank, the leftmost of equals.
func (b *byteLevel) mergeShort(dst []int32, word []byte) []int32 {
	var ids [shortWord]int32
	var ranks [shortWord]uint32 // of the pair that begins here
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

// mergeScratch is the working memory of mergeLong.
type mergeScratch struct {
	symbols []symbol
	queue   mergeQueue
}

// symbol is a token in the list of those that are left; id is dropped once the
// token is part of the one before it.
type symbol struct {
	id         int32
	prev, next int32
}

const dropped = -1

// mergeLong does the same for a word of any length, in O(n log n): the pairs
// wait in a heap by rank and position, and one that is out of date when its
// turn comes is passed over.
func (b *byteLevel) mergeLong(dst []int32, word []byte) []int32 {
	s := b.scratch.Get().(*mergeScratch)
	defer b.scratch.Put(s)
	symbols, queue := s.symbols[:0], s.queue[:0]
	for i := range len(word) {
		symbols = append(symbols, symbol{id: b.bytes[word[i]], prev: int32(i - 1), next: int32(i + 1)})
		if i > 0 {
			if rank := b.pairs.rank(symbols[i-1].id, symbols[i].id); rank != noMerge {
				queue = append(queue, mergeAt(rank, i-1))
			}
		}
	}
	n := int32(len(symbols))
	queue.build()
	for len(queue) > 0 {
		rank, at := queue.pop()
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
			if rank := b.pairs.rank(left.id, symbols[left.next].id); rank != noMerge {
				queue.push(mergeAt(rank, int(at)))
			}
		}
		if left.prev >= 0 {
			if rank := b.pairs.rank(symbols[left.prev].id, left.id); rank != noMerge {
				queue.push(mergeAt(rank, int(left.prev)))
			}
		}
	}
	for i := int32(0); i < n; i = symbols[i].next {
		dst = append(dst, symbols[i].id)
	}
	s.symbols, s.queue = symbols, queue
	return dst
}

// mergeQueue is a four-ary min-heap of merges, each a rank in the upper and a
// position in the lower 32 bits: four children share a cache line, and nothing
// is boxed as in container/heap.
type mergeQueue []uint64

func mergeAt(rank uint32, position int) uint64 { return uint64(rank)<<32 | uint64(uint32(position)) }

// build puts a slice of any order into heap order, in linear time.
func (q mergeQueue) build() {
	for i := (len(q) - 2) / 4; i >= 0 && len(q) > 1; i-- {
		q.down(i)
	}
}

func (q *mergeQueue) push(merge uint64) {
	*q = append(*q, merge)
	h := *q
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if h[parent] <= merge {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = merge
}

func (q *mergeQueue) pop() (rank uint32, position int32) {
	h := *q
	top, last := h[0], len(h)-1
	h[0] = h[last]
	*q = h[:last]
	if last > 1 {
		h[:last].down(0)
	}
	return uint32(top >> 32), int32(uint32(top))
}

func (q mergeQueue) down(i int) {
	merge := q[i]
	for {
		first := 4*i + 1
		if first >= len(q) {
			break
		}
		least := first
		for child := first + 1; child < min(first+4, len(q)); child++ {
			if q[child] < q[least] {
				least = child
			}
		}
		if merge <= q[least] {
			break
		}
		q[i] = q[least]
		i = least
	}
	q[i] = merge
}
