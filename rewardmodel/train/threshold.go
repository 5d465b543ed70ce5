package train

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/assay-ai/assay/rewardmodel"
)

// Threshold is a way to fit the adjusted decision threshold T from training scores.
type Threshold string

const (
	// OnePerBag flags as many instances of the violating bags as there are violating bags (the authors' public code).
	OnePerBag Threshold = "one-per-bag"
	// PerBag flags as many training bags as are labelled violations. It suits bags that hold several anomalous
	// instances, of which OnePerBag would spend many on the same bag.
	PerBag Threshold = "per-bag"
	// Quantile flags the share 1 - pi of all training instances, pi = 1 - 1/((sigma_micro+1)(sigma_macro+1)).
	// The paper's text applies pi to the instances of violating bags alone, which flags half as many as there are
	// violating bags at sigma_macro 1; pi is the normal share of all instances, so it is applied to all.
	Quantile Threshold = "quantile"
)

// Validate names the ways to fit a threshold when kind is none of them.
func (kind Threshold) Validate() error {
	switch kind {
	case OnePerBag, PerBag, Quantile:
		return nil
	}
	return fmt.Errorf("train: threshold is %q; use %s, %s or %s", kind, OnePerBag, PerBag, Quantile)
}

// Thresholds holds one decision threshold T in (0,1) for each way to aggregate a bag: a bag is a violation when its
// aggregated g_-1 exceeds T.
type Thresholds map[rewardmodel.Aggregate]float64

// fit places the thresholds by the margins of every training bag: that of the maximum as kind says; that of any other
// aggregate as PerBag does.
func (kind Threshold) fit(e *Epoch, scores [][]float64, micro, macro float64) (Thresholds, error) {
	var unlabelled, all []float64
	bags := map[rewardmodel.Aggregate][]float64{}
	for i, b := range e.Data.Bags {
		margins := make([]float32, len(scores[i]))
		for k, m := range scores[i] {
			margins[k] = float32(m)
			all = append(all, sigmoid(m))
			if b.Violation {
				unlabelled = append(unlabelled, sigmoid(m))
			}
		}
		for _, a := range rewardmodel.Aggregates() {
			bags[a] = append(bags[a], a.Violation(margins, rewardmodel.DefaultTopK))
		}
	}
	n := len(e.violating)
	thresholds := Thresholds{}
	for a, scores := range bags {
		thresholds[a] = above(scores, n)
	}
	switch kind {
	case PerBag: // as for the other aggregates
	case OnePerBag:
		thresholds[rewardmodel.AggregateMax] = above(unlabelled, n)
	case Quantile:
		pi := 1 - 1/((micro+1)*(macro+1))
		thresholds[rewardmodel.AggregateMax] = above(all, len(all)-int(float64(len(all))*pi))
	default:
		return nil, kind.Validate()
	}
	return thresholds, nil
}

// above returns a threshold that n of the scores exceed, ties aside: half-way between the n-th and the next largest.
func above(scores []float64, n int) float64 {
	sorted := slices.Clone(scores)
	slices.SortFunc(sorted, func(a, b float64) int { return cmp.Compare(b, a) })
	switch {
	case len(sorted) == 0:
		return 0.5
	case n <= 0:
		return (sorted[0] + 1) / 2
	case n >= len(sorted):
		return sorted[len(sorted)-1] / 2
	}
	return (sorted[n-1] + sorted[n]) / 2
}
