package tokenizer

import "math/bits"

// noMerge is the rank of two tokens that do not merge; it is above every rank.
const noMerge = ^uint32(0)

// pairTable maps a pair of adjacent tokens to the rank of their merge: an
// open-addressing hash table, because this lookup is nearly all the work of
// encoding a word that is not in the cache.
type pairTable struct {
	keys  []uint64 // pair + 1, so that 0 means a free slot
	ranks []uint32
	shift int
}

func newPairTable(pairs int) *pairTable {
	size := bits.Len(uint(2*pairs + 1)) // at most half full
	return &pairTable{keys: make([]uint64, 1<<size), ranks: make([]uint32, 1<<size), shift: 64 - size}
}

// slot returns the index of the pair, or the free one for it, and its key. The
// constant is 2^64 divided by the golden ratio, which spreads consecutive keys.
func (t *pairTable) slot(left, right int32) (int, uint64) {
	key := uint64(uint32(left))<<32 | uint64(uint32(right)) + 1
	i := int(key * 0x9E3779B97F4A7C15 >> t.shift)
	for t.keys[i] != 0 && t.keys[i] != key {
		i = (i + 1) & (len(t.keys) - 1)
	}
	return i, key
}

// set stores the rank of the pair and replaces an earlier one.
func (t *pairTable) set(left, right int32, rank uint32) {
	i, key := t.slot(left, right)
	t.keys[i], t.ranks[i] = key, rank
}

// rank returns the pair's rank, or noMerge.
func (t *pairTable) rank(left, right int32) uint32 {
	i, _ := t.slot(left, right)
	if t.keys[i] == 0 {
		return noMerge
	}
	return t.ranks[i]
}
