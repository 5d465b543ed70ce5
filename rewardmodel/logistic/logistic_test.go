package logistic

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLogistic(t *testing.T) {
	for _, x := range []float64{-30, -2, -1e-9, 0, 0.5, 3, 15} {
		require.InEpsilon(t, 1+math.Abs(x), 1+math.Abs(Logit(Sigmoid(x))), 1e-6)
		require.InDelta(t, 1, Sigmoid(x)+Sigmoid(-x), 1e-15)
		require.InDelta(t, math.Log1p(math.Exp(x)), Softplus(x), 1e-12)
	}
	require.Zero(t, Sigmoid(math.Inf(-1)))
	require.Equal(t, 1.0, Sigmoid(math.Inf(1)))
	require.Positive(t, Sigmoid(-700), "does not underflow early")
	require.Equal(t, 1e4, Softplus(1e4), "does not overflow")
	require.Equal(t, math.Inf(-1), Logit(0))
	require.Equal(t, math.Inf(1), Logit(1))
}
