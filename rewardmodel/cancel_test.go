package rewardmodel

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/internal/ctxtest"
	"assay/rewardmodel/batching"
)

// TestPrepareCanceled cancels the preparation of one large response during its
// segmentation and its tokenization.
func TestPrepareCanceled(t *testing.T) {
	s := newScorer(t, ScorerConfig{}, modelFunc(hashMargins))
	options := Options{}.withDefaults()
	for _, text := range []string{
		"It is the end." + strings.Repeat(" ", 1<<18) + strings.Repeat("mr. ", 1<<16),
		strings.Repeat("It was late. ", 1<<15),
	} {
		const never = 1 << 30
		ctx := &ctxtest.Countdown{Context: t.Context(), Left: never}
		_, _, err := s.prepare(ctx, Request{Responses: []Item{{Response: &text}}, Options: options}, batching.Ticket{})
		require.NoError(t, err)
		checks := never - ctx.Left
		require.Greater(t, checks, 10)
		for _, at := range []int{0, 1, 5, checks / 2, checks - 1} {
			ctx := &ctxtest.Countdown{Context: t.Context(), Left: at}
			_, _, err := s.prepare(ctx, Request{Responses: []Item{{Response: &text}}, Options: options}, batching.Ticket{})
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorContains(t, err, "the caller canceled")
			require.GreaterOrEqual(t, ctx.Left, -4, "it continues after the end")
		}
	}
}
