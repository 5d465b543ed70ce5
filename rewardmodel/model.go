package rewardmodel

import (
	"context"

	"assay/rewardmodel/batching"
)

// Sequence is the input of the model for an instance, or for one window of it. Its context
// is the tokens of what the response answers.
type Sequence = batching.Input

// Model turns token sequences into margins. It is called from one goroutine.
type Model interface {
	// Margins returns the margins of each sequence of the batch, in its order, with
	// one for each aspect of the model, in the order of ScorerConfig.Aspects: margin
	// a of sequence i has index i*aspects+a. A margin is logit(violation) -
	// logit(compliant), so that the violation g_-1 is its sigmoid. The sequences are
	// not padded, and come in any order and any mix of lengths. The margins of a
	// sequence must not depend on the other sequences of its batch.
	Margins(batch []Sequence) ([]float32, error)
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
