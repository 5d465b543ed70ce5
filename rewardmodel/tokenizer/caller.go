package tokenizer

import "context"

// caller is who waits for the tokens of a text. Its context is checked after
// each checkEvery steps of work, which take well under a millisecond.
type caller struct {
	ctx  context.Context
	work int // until the next check
	left bool
}

const checkEvery = 4096

// gone adds steps of work and tells whether the context was done at the last
// check; from then on, it always is. A nil caller is never gone.
func (c *caller) gone(steps int) bool {
	if c == nil {
		return false
	}
	if c.work -= steps; c.work < 0 {
		c.work = checkEvery
		c.left = c.left || c.ctx.Err() != nil
	}
	return c.left
}
