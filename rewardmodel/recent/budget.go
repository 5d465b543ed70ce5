package recent

import (
	"sync/atomic"
	"time"
)

// budget limits an average rate, without a lock. Time that was not used is saved for
// at most one second.
type budget struct {
	start    time.Time
	interval time.Duration // per response
	spent    atomic.Int64  // until when, in nanoseconds since start
}

// take reports whether n more responses are within the rate. A request that is
// larger than what is saved is admitted, and those after it have to wait.
func (b *budget) take(n int) bool {
	now := int64(time.Since(b.start))
	for {
		spent := b.spent.Load()
		if spent > now {
			return false
		}
		from := max(spent, now-int64(time.Second))
		if b.spent.CompareAndSwap(spent, from+int64(n)*int64(b.interval)) {
			return true
		}
	}
}
