package tokenizer

import (
	"hash/maphash"
	"slices"
	"sync/atomic"
)

const (
	cacheSlots    = 1 << 16
	maxCachedWord = 64 // bytes; longer words hardly repeat
)

// wordCache remembers the ids of words. It is a table in which each word has two
// places, the latest in the first and the one before in the second: readers and
// writers need no lock, and the size is bounded by 65,536 words of at most 64
// bytes and as many ids.
type wordCache struct {
	seed  maphash.Seed
	slots []atomic.Pointer[cachedWord]
}

type cachedWord struct {
	word string
	ids  []int32
}

func newWordCache() *wordCache {
	return &wordCache{seed: maphash.MakeSeed(), slots: make([]atomic.Pointer[cachedWord], cacheSlots)}
}

// append adds the ids of word to dst, computing them with encode (which appends
// to its argument) if they are not known.
func (c *wordCache) append(dst []int32, word []byte, encode func([]int32, []byte) []int32) []int32 {
	if len(word) > maxCachedWord {
		return encode(dst, word)
	}
	i := maphash.Bytes(c.seed, word) % cacheSlots
	first, second := &c.slots[i], &c.slots[i^1]
	latest := first.Load()
	if latest != nil && latest.word == string(word) {
		return append(dst, latest.ids...)
	}
	if known := second.Load(); known != nil && known.word == string(word) {
		return append(dst, known.ids...)
	}
	n := len(dst)
	dst = encode(dst, word)
	second.Store(latest)
	first.Store(&cachedWord{word: string(word), ids: slices.Clone(dst[n:])})
	return dst
}
