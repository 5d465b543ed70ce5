package js

import (
	"sync/atomic"
	"time"
)

// Clock relates the clock of the server, which stamps messages, to the clock of
// this process. The difference is unbounded. The zero value treats them as equal.
type Clock struct{ ahead atomic.Int64 } // of the server, in nanoseconds

// Observe takes the server's time in a reply that was requested and received at
// the given times of this process. It keeps an estimate that is consistent with
// the reply, since a slow reply carries little information.
func (c *Clock) Observe(server, requested, received time.Time) {
	if server.IsZero() { // the server does not report its time
		return
	}
	low, high := server.Sub(received), server.Sub(requested)
	if ahead := time.Duration(c.ahead.Load()); ahead < low || ahead > high {
		c.ahead.Store(int64(low + (high-low)/2))
	}
}

// Local converts a time of the server to the clock of this process.
func (c *Clock) Local(server time.Time) time.Time {
	return server.Add(-time.Duration(c.ahead.Load()))
}
