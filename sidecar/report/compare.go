package report

import (
	"cmp"
	"math"
	"slices"

	"assay/rewardmodel/eval"
)

// Comparison relates scores of responses to others of the same responses, by id: those of another version of the model,
// or with other settings.
type Comparison struct {
	Common      int     // responses in both
	Correlation float64 // Spearman's, of the rewards; NaN if one is constant
	Difference  float64 // mean of the second reward less the first
	Largest     float64 // absolute difference
	Flips       int     // responses whose verdict differs
	Changes     []Change
}

// Change is a response whose verdict differs.
type Change struct{ Before, After Response }

// Compare compares the rewards with those of after. It lists at most n changed verdicts, the largest difference first.
func Compare(before, after []Response, n int) *Comparison {
	at := map[string]Response{}
	for _, r := range before {
		at[r.ID] = r
	}
	c := &Comparison{}
	var first, second []float64
	for _, r := range after {
		old, ok := at[r.ID]
		if !ok {
			continue
		}
		first, second = append(first, old.Reward), append(second, r.Reward)
		c.Difference += r.Reward - old.Reward
		c.Largest = max(c.Largest, math.Abs(r.Reward-old.Reward))
		if old.Compliant != r.Compliant {
			old.Witness, r.Witness = shorten(old.Witness), shorten(r.Witness)
			c.Changes = append(c.Changes, Change{old, r})
		}
	}
	c.Common, c.Flips, c.Correlation = len(first), len(c.Changes), math.NaN()
	if c.Common > 0 {
		c.Difference /= float64(c.Common)
	}
	if c.Common > 1 {
		c.Correlation = eval.Spearman(first, second)
	}
	size := func(c Change) float64 { return math.Abs(c.After.Reward - c.Before.Reward) }
	slices.SortStableFunc(c.Changes, func(a, b Change) int { return cmp.Compare(size(b), size(a)) })
	c.Changes = c.Changes[:min(n, len(c.Changes))]
	return c
}
