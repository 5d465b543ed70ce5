package rewardmodel

import (
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/maypok86/otter/v2"
)

// cacheEntryBytes is the memory of one entry of a model with one aspect: the key, the
// margins, the node and its slot in the table. TestCacheBytes measures 112 to 127 in a full cache.
const cacheEntryBytes = 128

// window is the key of the i-th window of an instance; the first is k itself.
func window(k key, i int) key { return key{Hi: k.Hi, Lo: k.Lo + uint64(i)} }

// cache maps the texts of instances to their margins, for one model.
type cache struct {
	high, low maphash.Seed
	entry     int64                        // bytes
	margins   *otter.Cache[key, []float32] // nil: caches nothing
}

// newCache returns a cache of at most the given bytes for a model with the given
// number of aspects; 0 bytes cache nothing.
func newCache(bytes int64, aspects int) (*cache, error) {
	c := &cache{high: maphash.MakeSeed(), low: maphash.MakeSeed(), entry: cacheEntryBytes + 4*int64(aspects-1)}
	if bytes < c.entry {
		return c, nil
	}
	margins, err := otter.New(&otter.Options[key, []float32]{
		MaximumSize: int(bytes / c.entry),
		// Eviction runs on the caller's goroutine: none outlives the scorer.
		Executor: func(task func()) { task() },
	})
	if err != nil {
		return nil, fmt.Errorf("instance cache of %d bytes: %w", bytes, err)
	}
	c.margins = margins
	return c, nil
}

// key identifies the text of an instance: a 128-bit hash whose seeds are random for each
// scorer, so that no client can construct a collision.
func (c *cache) key(text string) key {
	return key{Hi: maphash.String(c.high, text), Lo: maphash.String(c.low, text)}
}

// keyIn is the key of text in a context with the given key.
func (c *cache) keyIn(context key, text string) key {
	of := func(seed maphash.Seed) uint64 {
		var h maphash.Hash
		h.SetSeed(seed)
		maphash.WriteComparable(&h, context)
		h.WriteString(text)
		return h.Sum64()
	}
	return key{Hi: of(c.high), Lo: of(c.low)}
}

// get returns the margins of an instance, one for each aspect.
func (c *cache) get(k key) (margins []float32, ok bool) {
	if c.margins == nil {
		return nil, false
	}
	return c.margins.GetIfPresent(k)
}

// bytes is the memory of the cached margins.
func (c *cache) bytes() int64 {
	if c.margins == nil {
		return 0
	}
	return int64(c.margins.EstimatedSize()) * c.entry
}

// put stores a copy of the margins.
func (c *cache) put(k key, margins []float32) {
	if c.margins != nil {
		c.margins.Set(k, slices.Clone(margins))
	}
}
