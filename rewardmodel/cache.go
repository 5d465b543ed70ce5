package rewardmodel

import (
	"fmt"
	"hash/maphash"

	"github.com/maypok86/otter/v2"
)

// cacheEntryBytes is the memory of one entry: the key, the margin, the node and its
// slot in the table. TestCacheBytes measures 82 to 96 in a full cache.
const cacheEntryBytes = 96

// key identifies the text of an instance: a 128-bit hash whose seeds are random for
// each scorer, so that no client can construct a collision.
type key struct{ hi, lo uint64 }

// window is the key of the i-th window of an instance; the first is k itself.
func (k key) window(i int) key { return key{k.hi, k.lo + uint64(i)} }

// cache maps the texts of instances to their margins, for one model.
type cache struct {
	high, low maphash.Seed
	margins   *otter.Cache[key, float32] // nil: caches nothing
}

// newCache returns a cache of at most the given bytes; 0 caches nothing.
func newCache(bytes int64) (*cache, error) {
	c := &cache{high: maphash.MakeSeed(), low: maphash.MakeSeed()}
	if bytes < cacheEntryBytes {
		return c, nil
	}
	margins, err := otter.New(&otter.Options[key, float32]{
		MaximumSize: int(bytes / cacheEntryBytes),
		// Eviction runs on the caller's goroutine: none outlives the scorer.
		Executor: func(task func()) { task() },
	})
	if err != nil {
		return nil, fmt.Errorf("instance cache of %d bytes: %w", bytes, err)
	}
	c.margins = margins
	return c, nil
}

func (c *cache) key(text string) key {
	return key{maphash.String(c.high, text), maphash.String(c.low, text)}
}

func (c *cache) get(k key) (margin float32, ok bool) {
	if c.margins == nil {
		return 0, false
	}
	return c.margins.GetIfPresent(k)
}

// bytes is the memory of the cached margins.
func (c *cache) bytes() int64 {
	if c.margins == nil {
		return 0
	}
	return int64(c.margins.EstimatedSize()) * cacheEntryBytes
}

func (c *cache) put(k key, margin float32) {
	if c.margins != nil {
		c.margins.Set(k, margin)
	}
}
