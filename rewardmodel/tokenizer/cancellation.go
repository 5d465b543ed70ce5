package tokenizer

import "context"

// cancellation checks a context after every checkEvery steps of work, which take well under a millisecond.
type cancellation struct {
	ctx      context.Context
	work     int // until the next check
	canceled bool
}

const checkEvery = 4096

// done adds steps of work and reports whether the context was done at the last check. Once true, it stays true. A nil
// cancellation is never done.
func (c *cancellation) done(steps int) bool {
	if c == nil {
		return false
	}
	if c.work -= steps; c.work < 0 {
		c.work = checkEvery
		c.canceled = c.canceled || c.ctx.Err() != nil
	}
	return c.canceled
}
