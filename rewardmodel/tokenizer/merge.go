package tokenizer

// shortWord is the longest word, in bytes, whose merges are found by looking at
// all pairs each time; from there on a queue is faster, and its time stays linear.
const shortWord = 64

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

// symbol is a token in the list of those that are left of a long word; id is
// dropped once the token is part of the one before it.
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

// mergeLong does the same as mergeShort for a word of any length, in O(n log n):
// the pairs wait in a queue by rank and position, and a stale one is
// skipped when it is popped.
func (b *byteLevel) mergeLong(caller *caller, dst []int32, word []byte) []int32 {
	s := b.scratch.Get().(*mergeScratch)
	defer b.scratch.Put(s)
	queue := &s.queue
	queue.reset(len(b.merged))
	symbols, n := s.symbols[:0], int32(len(word))
	for i := range n {
		if caller.gone(1) {
			break
		}
		symbols = append(symbols, symbol{id: b.bytes[word[i]], prev: i - 1, next: i + 1})
		if i > 0 {
			queue.push(b.pairs.rank(symbols[i-1].id, symbols[i].id), i-1)
		}
	}
	for len(queue.ranks) > 0 {
		rank, positions := queue.pop() // to the last one, which leaves the queue empty for another word
		for done, at := range positions {
			if caller.gone(1) {
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
			if len(queue.ranks) > 0 && queue.ranks[0] < rank { // a better pair came up: the others wait again
				for _, at := range positions[done+1:] {
					queue.push(rank, at)
				}
				break
			}
		}
	}
	if caller.gone(0) {
		return dst
	}
	for i := int32(0); i < n; i = symbols[i].next {
		dst = append(dst, symbols[i].id)
	}
	s.symbols = symbols
	return dst
}
