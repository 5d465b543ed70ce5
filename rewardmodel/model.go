package rewardmodel

import "context"

// Model turns token sequences into margins. It is called from one goroutine.
type Model interface {
	// Margins returns one margin for each sequence of the batch, in its order:
	// logit(violation) - logit(compliant), so that the violation g_-1 is the
	// sigmoid of the margin. The sequences carry their special tokens, are not
	// padded, and come in any order and any mix of lengths. A sequence's margin
	// must not depend on the other sequences of its batch.
	Margins(batch [][]int32) ([]float32, error)
}

// Tokenizer turns text into token ids. It must be safe for concurrent use.
type Tokenizer interface {
	// IDsContext returns the ids of text, without special tokens. When ctx is done
	// first, it promptly returns the error of ctx, even for a long text.
	IDsContext(ctx context.Context, text string) ([]int32, error)
	// Frame adds the special tokens that the model expects around ids.
	Frame(ids []int32) []int32
	// Special is the number of tokens that Frame adds.
	Special() int
}
