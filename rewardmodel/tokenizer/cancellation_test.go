package tokenizer

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/ctxtest"
	"assay/segmenter"
)

// TestIDsContext cancels the tokenization of long texts at many points. It checks
// that the context is checked often enough, that work stops after the cancellation,
// and that the tokens of a later text are not affected.
func TestIDsContext(t *testing.T) {
	const size = 1 << 17
	tokenizers := map[string]*Tokenizer{
		"bpe": load(t, "bpe"), "wordpiece": load(t, "wordpiece"),
		"unigram": loadFiles(t, map[string]string{spmFile: string(spmBytes(t)), configFile: `{"split_by_punct":true}`}),
	}
	if !testing.Short() {
		tokenizers["modernbert"] = load(t, "modernbert")
	}
	for name, tok := range tokenizers {
		for _, unit := range []string{"supercalifragilistic", "a", "= ", "你好", "one two "} {
			text := strings.Repeat(unit, size/len(unit))
			want := tok.IDs(text)
			const never = 1 << 30
			whole := &ctxtest.Countdown{Context: t.Context(), Left: never}
			got, err := tok.IDsContext(whole, text)
			require.NoError(t, err)
			require.Equal(t, want, got)
			checks := never - whole.Left
			if name != "wordpiece" || strings.Contains(unit, " ") { // a word of more than 100 characters is one step
				require.Greater(t, checks, size/checkEvery/4, "%s %q", name, unit)
			}
			for at := range min(checks, 24) {
				ctx := &ctxtest.Countdown{Context: t.Context(), Left: at}
				ids, err := tok.IDsContext(ctx, text)
				require.ErrorIs(t, err, context.Canceled, "%s %q at check %d of %d", name, unit, at, checks)
				require.Nil(t, ids)
				require.GreaterOrEqual(t, ctx.Left, -4, "the context is checked repeatedly after the cancellation")
			}
			require.Equal(t, want, tok.IDs(text), "%s %q", name, unit)
		}
	}
}

func TestOffsetsContext(t *testing.T) {
	bpe, err := LoadPolicy(policyDir(t, policies(t)["qwen"]))
	require.NoError(t, err)
	for name, tok := range map[string]interface {
		Encode(text string) Encoding
		OffsetsContext(ctx context.Context, text string) ([]segmenter.Span, error)
	}{
		"policy": bpe, "bpe": load(t, "bpe"), "wordpiece": load(t, "wordpiece"), "unigram": loadFiles(t, map[string]string{spmFile: string(spmBytes(t))}),
	} {
		text := strings.Repeat("one two ", 1<<14)
		const never = 1 << 30
		whole := &ctxtest.Countdown{Context: t.Context(), Left: never}
		got, err := tok.OffsetsContext(whole, text)
		require.NoError(t, err)
		require.Equal(t, tok.Encode(text).Offsets, got, name)
		checks := never - whole.Left
		require.Greater(t, checks, len(text)/checkEvery/4, name)
		for at := range checks {
			ctx := &ctxtest.Countdown{Context: t.Context(), Left: at}
			_, err := tok.OffsetsContext(ctx, text)
			require.ErrorIs(t, err, context.Canceled, "%s at check %d of %d", name, at, checks)
			require.GreaterOrEqual(t, ctx.Left, -4, name)
		}
	}
}
