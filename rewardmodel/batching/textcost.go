package batching

// textCost estimates the tokens of a text that was not read yet from its length;
// the latest texts count most. Those that the cache knows cost less.
type textCost struct{ bytes, tokens float64 }

// observe counts a job. A live session has no length.
func (c *textCost) observe(bytes, tokens int) {
	if bytes == 0 {
		return
	}
	const keep = 0.99
	c.bytes, c.tokens = c.bytes*keep+float64(bytes), c.tokens*keep+float64(tokens)
}

// of is at least 1.
func (c *textCost) of(bytes int) int {
	if c.bytes == 0 {
		return 1
	}
	return max(1, int(float64(bytes)*c.tokens/c.bytes))
}
