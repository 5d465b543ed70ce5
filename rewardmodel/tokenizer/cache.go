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

// wordCache caches the ids of words. It is a table in which each word has two
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

// encoder appends the ids of a word to its argument. It may stop early once the
// caller is gone; a nil caller stays.
type encoder func(caller *caller, dst []int32, word []byte) []int32

// append adds the ids of word to dst, computing them with encode if they are not
// known. What is remembered is always the whole word.
func (c *wordCache) append(caller *caller, dst []int32, word []byte, encode encoder) []int32 {
	if len(word) > maxCachedWord {
		return encode(caller, dst, word)
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
