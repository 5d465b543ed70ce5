package stats

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	values := []float64{3, 1, 2}
	require.Equal(t, 2.0, Median(values))
	require.Equal(t, []float64{3, 1, 2}, values)
	require.Equal(t, 2.5, Median([]float64{4, 1, 3, 2}))
	require.True(t, math.IsNaN(Median(nil)))
}

func TestPercentile(t *testing.T) {
	require.Zero(t, Percentile(nil, 50))
	for _, n := range []int{101, 200} {
		sorted := make([]time.Duration, n)
		for i := range sorted {
			sorted[i] = time.Duration(i + 1)
		}
		require.Equal(t, map[int][]time.Duration{101: {1, 51, 100, 101}, 200: {1, 100, 198, 200}}[n],
			[]time.Duration{Percentile(sorted, 0), Percentile(sorted, 50), Percentile(sorted, 99), Percentile(sorted, 100)})
	}
	require.Equal(t, 1.5, Milliseconds(1500*time.Microsecond))
}

func TestDifference(t *testing.T) {
	mean, stdErr := Difference([]float64{3, 5, 7}, []float64{1, 2, 3})
	require.InDelta(t, 3, mean, 1e-12)
	require.InDelta(t, 1/math.Sqrt(3), stdErr, 1e-12)
	mean, stdErr = Difference([]float64{3}, []float64{1})
	require.Equal(t, 2.0, mean)
	require.True(t, math.IsNaN(stdErr))
	require.Equal(t, 2.0, Mean([]float64{1, 3}))
}
