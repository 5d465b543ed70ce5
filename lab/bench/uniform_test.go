package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUniform(t *testing.T) {
	texts := []string{"It was long. I did not like it. No.", "He was here. It was long.", "She ran away."}
	u, err := NewUniform(t.Context(), texts, 5, 10, words{}, 100)
	require.NoError(t, err)
	require.Equal(t, 3, u.Sentences(), "those of three words and two special tokens, each once")
	work, err := u.Take(t.Context(), 2, 2)
	require.NoError(t, err)
	require.Equal(t, "It was long.\n\nHe was here.", work[0].Text)
	require.Equal(t, []string{"She ran away.", "It was long."}, work[1].Utterances)
	require.Equal(t, []int{5, 5}, work[1].Tokens)
	work, err = u.Take(t.Context(), 1, 1)
	require.NoError(t, err)
	require.Equal(t, "He was here.", work[0].Text, "it continues")

	u, err = NewUniform(t.Context(), texts, 5, 2, words{}, 100)
	require.NoError(t, err)
	require.Equal(t, 2, u.Sentences())

	_, err = NewUniform(t.Context(), texts, 50, 2, words{}, 100)
	require.ErrorIs(t, err, ErrNoWork)
}
