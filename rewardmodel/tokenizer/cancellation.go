package tokenizer

import "context"

// caller is the caller that waits for the tokens of a text. Its context is checked
// after every checkEvery steps of work, which take well under a millisecond.
type caller struct {
	ctx      context.Context
	work     int // until the next check
	canceled bool
}

const checkEvery = 4096

// gone adds steps of work and reports whether the context was done at the last
// check, and true from then on. A nil caller is never gone.
func (c *caller) gone(steps int) bool {
	if c == nil {
		return false
	}
	if c.work -= steps; c.work < 0 {
		c.work = checkEvery
		c.canceled = c.canceled || c.ctx.Err() != nil
	}
	return c.canceled
}
