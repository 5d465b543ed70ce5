package paper

import (
	"cmp"
	"slices"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/eval"
)

// HistogramBins is the number of bins of a score histogram.
const HistogramBins = 40

// NewHistograms counts the bags by their score, the maximum g_-1 of their instances.
func NewHistograms(bags []eval.BagScores) Histograms {
	h := Histograms{Violation: make([]int, HistogramBins), Compliant: make([]int, HistogramBins)}
	for _, b := range bags {
		at := min(max(int(b.Violation()*HistogramBins), 0), HistogramBins-1)
		if b.Label == bag.Violation {
			h.Violation[at]++
		} else {
			h.Compliant[at]++
		}
	}
	return h
}

// Measure returns the metrics of a record: those of eval.Evaluate at the threshold, and BestAvgAcc.
func Measure(test []eval.BagScores, threshold float64) (map[string]float64, error) {
	report, err := eval.Evaluate(test, threshold, eval.Bootstrap{})
	if err != nil {
		return nil, err
	}
	report.Metrics[BestAvgAcc] = bestAvgAcc(test)
	return report.Metrics, nil
}

// bestAvgAcc is the maximum AvgAcc over all thresholds; for bags of one label it is 1.
func bestAvgAcc(bags []eval.BagScores) float64 {
	sorted := slices.Clone(bags)
	slices.SortFunc(sorted, func(a, b eval.BagScores) int { return cmp.Compare(a.Violation(), b.Violation()) })
	var c eval.Confusion // at a threshold below all scores
	for _, b := range sorted {
		if b.Label == bag.Violation {
			c.TruePositive++
		} else {
			c.FalsePositive++
		}
	}
	best := c.AvgAcc()
	for i, b := range sorted { // raise the threshold to the score of b
		if b.Label == bag.Violation {
			c.TruePositive, c.FalseNegative = c.TruePositive-1, c.FalseNegative+1
		} else {
			c.FalsePositive, c.TrueNegative = c.FalsePositive-1, c.TrueNegative+1
		}
		if i+1 == len(sorted) || sorted[i+1].Violation() > b.Violation() {
			best = max(best, c.AvgAcc())
		}
	}
	return best
}

// LossCurve collects losses and keeps at most 100 points, evenly spaced over the steps. The zero value is ready to use.
type LossCurve struct {
	points []LossPoint
	every  int // steps between retained points
}

// maxLossPoints is the maximum number of points that Points returns.
const maxLossPoints = 100

// Add appends the loss of a step; steps ascend.
func (c *LossCurve) Add(step int, stage string, loss float64) {
	c.every = max(c.every, 1)
	if n := len(c.points); n > 0 && c.points[n-1].Stage == stage && step < c.points[n-1].Step+c.every {
		return
	}
	c.points = append(c.points, LossPoint{Step: step, Stage: stage, Loss: loss})
	if len(c.points) > maxLossPoints {
		kept := c.points[:0]
		for i, p := range c.points {
			if i%2 == 0 {
				kept = append(kept, p)
			}
		}
		c.points, c.every = kept, 2*c.every
	}
}

// Points returns the retained points.
func (c *LossCurve) Points() []LossPoint { return slices.Clone(c.points) }
