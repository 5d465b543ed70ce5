package feedback

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Ranking ends with the request that asked for it.
func TestRankContext(t *testing.T) {
	var pool []Scored
	for i := range 100 {
		pool = append(pool, scored(fmt.Sprint(i), fmt.Sprint("text ", i), float64(i)/100))
	}
	got, err := RankContext(t.Context(), pool, 10, RankOptions{})
	require.NoError(t, err)
	require.Equal(t, Rank(pool, 10, RankOptions{}), got)

	left := errors.New("the client left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(left)
	_, err = RankContext(ctx, pool, 10, RankOptions{})
	require.ErrorIs(t, err, left)
}
