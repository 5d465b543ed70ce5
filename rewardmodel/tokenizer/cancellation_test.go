package tokenizer

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/ctxtest"
)

// TestIDsContext cancels the tokenizing of long texts at many places. It asks
// often enough, never continues after the end, and leaves nothing behind that
// changes the tokens of a later text.
func TestIDsContext(t *testing.T) {
	const size = 1 << 17
	tokenizers := map[string]*Tokenizer{
		"bpe": load(t, "bpe"), "wordpiece": load(t, "wordpiece"),
		"unigram": loadFiles(t, map[string]string{spmFile: string(spmBytes(t)), configFile: `{"split_by_punct":true}`}),
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
				require.GreaterOrEqual(t, ctx.Left, -4, "it asks again and again")
			}
			require.Equal(t, want, tok.IDs(text), "%s %q", name, unit)
		}
	}
}
