// Package ctxtest provides a context for tests of cancellation.
package ctxtest

import "context"

// Countdown is a context that is canceled after a number of calls of Err. It needs no
// clock, so the point of the cancellation is deterministic.
type Countdown struct {
	context.Context
	Left  int    // calls until the cancellation; below 0: minus the calls since
	Ended func() // if not nil, called at the cancellation
}

// Err returns nil until the countdown ends, then context.Canceled.
func (c *Countdown) Err() error {
	if c.Left--; c.Left >= 0 {
		return nil
	}
	if c.Left == -1 && c.Ended != nil {
		c.Ended()
	}
	return context.Canceled
}
