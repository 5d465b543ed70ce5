package batching

// counter counts the tokens of inputs, those of a shared context once.
type counter struct {
	tokens   int
	contexts map[*int32]bool // by their first token
}

// cost is the number of tokens that an input adds.
func (c *counter) cost(in Input) int {
	if len(in.Context) == 0 || c.contexts[&in.Context[0]] {
		return len(in.IDs)
	}
	return len(in.IDs) + len(in.Context)
}

func (c *counter) add(in Input) {
	c.tokens += c.cost(in)
	if len(in.Context) == 0 {
		return
	}
	if c.contexts == nil {
		c.contexts = map[*int32]bool{}
	}
	c.contexts[&in.Context[0]] = true
}

// Tokens is the number of tokens that a model computes for a batch.
func Tokens(batch []Input) int {
	var c counter
	for _, in := range batch {
		c.add(in)
	}
	return c.tokens
}
