package eval

import (
	"cmp"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Spearman is the correlation of the ranks of a and b, which have the same length; ties have the mean of their ranks.
// It is NaN if one of them is constant.
func Spearman(a, b []float64) float64 { return stat.Correlation(ranks(a), ranks(b), nil) }

// ranks returns the rank of each value; ties have the mean of their ranks.
func ranks(values []float64) []float64 {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	out := make([]float64, len(values))
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && values[order[to]] == values[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			out[i] = float64(from+to-1) / 2
		}
		from = to
	}
	return out
}
