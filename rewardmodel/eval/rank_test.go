package eval

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpearman(t *testing.T) {
	require.InDelta(t, 1, Spearman([]float64{1, 2, 30}, []float64{-5, 0, 0.1}), 1e-12)
	require.InDelta(t, -1, Spearman([]float64{1, 2, 30}, []float64{5, 0, -0.1}), 1e-12)
	require.Equal(t, []float64{0.5, 2.5, 0.5, 2.5}, ranks([]float64{1, 7, 1, 7}))
	require.True(t, math.IsNaN(Spearman([]float64{1, 1}, []float64{1, 2})))
}
