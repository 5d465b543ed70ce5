package queue

import (
	"sync/atomic"
	"time"
)

// serverClock relates the clock of the server, which stamps messages, to that
// of this process. The two differ by any amount. The zero value takes them for
// equal.
type serverClock struct{ ahead atomic.Int64 } // of the server, in nanoseconds

// observe takes the server's time in a reply that was requested and received at
// the given times of this process. An estimate that agrees with it is kept, as
// a slow reply says little.
func (c *serverClock) observe(server, requested, received time.Time) {
	if server.IsZero() { // a server that does not report it
		return
	}
	least, most := server.Sub(received), server.Sub(requested)
	if ahead := time.Duration(c.ahead.Load()); ahead < least || ahead > most {
		c.ahead.Store(int64(least + (most-least)/2))
	}
}

// local returns the time of this process at a time of the server.
func (c *serverClock) local(server time.Time) time.Time {
	return server.Add(-time.Duration(c.ahead.Load()))
}
