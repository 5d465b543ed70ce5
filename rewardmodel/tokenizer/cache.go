package tokenizer

import (
	"hash/maphash"
	"slices"
	"sync/atomic"
)

const (
	cacheSlots    = 1 << 16
	maxCachedWord = 64 // bytes; longer words rarely repeat
)

// wordCache caches the ids of words. It is a hash table in which each word has two
// slots: the first has the latest word, the second the one before it. Readers and
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

// encoder appends the ids of a word to dst. It may stop early once cancel is done.
type encoder func(cancel *cancellation, dst []int32, word []byte) []int32

// append appends the ids of word to dst and computes them with encode if they are
// not cached. A word to be cached is always encoded completely.
func (c *wordCache) append(cancel *cancellation, dst []int32, word []byte, encode encoder) []int32 {
	if len(word) > maxCachedWord {
		return encode(cancel, dst, word)
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
	dst = encode(nil, dst, word)
	second.Store(latest)
	first.Store(&cachedWord{word: string(word), ids: slices.Clone(dst[n:])})
	return dst
}
