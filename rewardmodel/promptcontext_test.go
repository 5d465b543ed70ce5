package rewardmodel

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"assay/rewardmodel/batching"

	"github.com/stretchr/testify/require"
)

// contextModel records its batches; its margins depend on the context.
func contextModel(batches *[][]Sequence) modelFunc {
	return func(batch []Sequence) ([]float32, error) {
		*batches = append(*batches, batch)
		margins := make([]float32, len(batch))
		for i, q := range batch {
			margins[i] = hashMargin(append(append([]int32{}, q.Context...), q.IDs...))
		}
		return margins, nil
	}
}

// A model that was trained with prompts gets that of each response, tokenized once.
func TestPromptIsTheContext(t *testing.T) {
	var batches [][]Sequence
	s := newScorer(t, ScorerConfig{ContextTokens: 6, CacheBytes: 1 << 16}, contextModel(&batches))
	req := responses("Yes. No.", "Yes. No.", "Yes.", "Yes.")
	req.Responses[0].Prompt = "one two three four five six"
	req.Responses[1].Prompt = "one two three four five six"
	req.Responses[2].Prompt = "another"
	results := score(t, s, req)
	require.Len(t, batches, 1)
	require.Len(t, batches[0], 4, "equal instances are computed once for each context")
	tail := words{}.Frame(words{}.IDs("three four five six"))
	require.Equal(t, tail, batches[0][0].Context, "trimmed from the left")
	require.Same(t, &batches[0][0].Context[0], &batches[0][1].Context[0])
	require.Equal(t, words{}.Frame(words{}.IDs("another")), batches[0][2].Context)
	require.Nil(t, batches[0][3].Context)
	require.Equal(t, results[0].Violation, results[1].Violation)
	require.NotEqual(t, results[2].Violation, results[3].Violation)
	require.Equal(t, 0, results[0].Instances[0].Start)

	again := score(t, s, req)
	require.Len(t, batches, 1, "all of it is cached")
	for i := range again {
		require.Equal(t, results[i].Violation, again[i].Violation)
	}

	plain := newScorer(t, ScorerConfig{}, contextModel(&batches))
	for _, r := range score(t, plain, req) {
		require.Equal(t, results[3].Instances[0].Violation, r.Instances[0].Violation, "other models do not read it")
	}
}

// The turns before a message are its context.
func TestTurnsAreTheContext(t *testing.T) {
	item := Item{Prompt: "Be brief.", Messages: []Message{{"user", "Hello?"}, {"assistant", "Yes."}, {"user", "And?"}, {"assistant", "No."}}}
	require.Equal(t, "Be brief.\nHello?", item.context(new(1), 100))
	require.Equal(t, "Be brief.\nHello?\nYes.\nAnd?", item.context(new(3), 100))
	require.Equal(t, "Yes.\nAnd?", item.context(new(3), 12), "whole words of the end")
	require.Empty(t, Item{Prompt: " \n"}.context(nil, 100))
	require.Equal(t, "äöü", Item{Prompt: "ääääöü"}.context(nil, 7), "whole code points")
	require.Equal(t, 5, len(Item{Prompt: strings.Repeat("\x80", 100)}.context(nil, 8)), "not UTF-8")
	require.Equal(t, "And?", Item{Prompt: "And?" + strings.Repeat(" ", 100)}.context(nil, 7))
	blank := []Message{{"user", " \n"}}
	require.Equal(t, "Why not now?", Item{Prompt: "Goodness. Why not now?", Messages: blank}.context(new(1), 16), "whole words before blank turns")

	var batches [][]Sequence
	s := newScorer(t, ScorerConfig{ContextTokens: 32}, contextModel(&batches))
	score(t, s, Request{Responses: []Item{item}})
	require.Equal(t, words{}.Frame(words{}.IDs("Be brief. Hello?")), batches[0][0].Context)
	require.Equal(t, words{}.Frame(words{}.IDs("Be brief. Hello? Yes. And?")), batches[0][1].Context)
}

// The tokens of a context count once for each batch, and a job queues them once.
func TestContextCountsOncePerBatch(t *testing.T) {
	var batches [][]Sequence
	s := newScorer(t, ScorerConfig{ContextTokens: 22, MaxBatchTokens: 40}, contextModel(&batches))
	req := responses(strings.Join([]string{"a b c d.", "e f g h.", "i j k l.", "m n o p.", "q r s t."}, "\n\n"))
	req.Responses[0].Prompt = strings.Repeat("word ", 20)
	work, _, err := s.prepare(t.Context(), Request{Responses: req.Responses, Options: req.Options.withDefaults()}, batching.Ticket{})
	require.NoError(t, err)
	require.Equal(t, 5*6+22, work.Tokens())
	score(t, s, req)
	var sizes []int
	for _, b := range batches {
		sizes = append(sizes, len(b))
	}
	require.Equal(t, []int{3, 2}, sizes, "22 tokens of context and three or two times six")
}

// The context of each message takes what is read of the turns before it, however many
// and however long they are.
func TestContextOfManyLongTurns(t *testing.T) {
	item := Item{Prompt: strings.Repeat("word ", 1<<20)}
	for range 1000 {
		item.Messages = append(item.Messages, Message{RoleAssistant, "a"})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range item.Messages {
		require.NotEmpty(t, item.context(&i, 4096))
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20), "a copy of the prompt has 5 MiB")
}

// Given instances have one prompt, which is read once for all of them.
func TestPromptOfManyInstances(t *testing.T) {
	instances := make([]string, 4096)
	for i := range instances {
		instances[i] = "a"
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // far less than it takes to read it for each
	defer cancel()
	s := newScorer(t, ScorerConfig{ContextTokens: 8}, modelFunc(hashMargins))
	_, err := s.Score(ctx, Request{Responses: []Item{{Prompt: strings.Repeat(" ", 8<<20), Instances: instances}}})
	require.NoError(t, err)
}
