package rewardmodel

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// The cost of the scorer without the model: 512 responses of 10 sentences.
func BenchmarkScore(b *testing.B) {
	for _, cacheBytes := range []int64{0, 64 << 20} {
		b.Run(fmt.Sprintf("cache %d", cacheBytes), func(b *testing.B) {
			s := newScorer(b, ScorerConfig{CacheBytes: cacheBytes}, modelFunc(func(batch []Sequence) ([]float32, error) {
				return make([]float32, len(batch)), nil
			}))
			var texts []string
			size := 0
			for i := range 512 {
				var text strings.Builder
				for k := range 10 {
					fmt.Fprintf(&text, "This is sentence %d of the response %d and it says little. ", k, i)
				}
				texts = append(texts, text.String())
				size += text.Len()
			}
			req := responses(texts...)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Score(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The heap memory of a full cache is within its limit for any size, apart from the
// rounding of the runtime. The sizes include ones just above and below a doubling of its
// table.
func TestCacheBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("fills the cache")
	}
	for _, bound := range []int64{64 << 10, 1 << 20, 4 << 20, 6 << 20, 7 << 20, 20 << 20} {
		cacheWithin(t, bound)
	}
}

func cacheWithin(t *testing.T, bound int64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	c, err := newCache(bound, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * bound / cacheEntryBytes {
		c.put(c.key(fmt.Sprint("instance ", i)), []float32{1})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	used := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d bytes: %d entries, %.0f bytes each", bound, c.margins.EstimatedSize(), float64(used)/float64(c.margins.EstimatedSize()))
	if used > bound+bound/20+4<<10 {
		t.Errorf("the cache holds %d bytes of %d", used, bound)
	}
	if counted := c.bytes(); counted > bound || counted < bound*9/10 {
		t.Errorf("a full cache of %d bytes reports %d", bound, counted)
	}
	runtime.KeepAlive(c)
}
