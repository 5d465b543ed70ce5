package fleet

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"
)

// A caller waits until the candidates of another one are ranked, unless it leaves.
func TestOneRankingAtATime(t *testing.T) {
	l := &Learning{ranking: semaphore.NewWeighted(1)}
	require.True(t, l.ranking.TryAcquire(1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.candidates(ctx, 1) // without labels: it reads none
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, l.ranking.TryAcquire(1), "it releases nothing that it does not hold")
}
