package eval

import (
	"cmp"
	"math"
	"slices"
)

// calibrationBins is the usual number of bins of the expected calibration error.
const calibrationBins = 15

// Confusion counts decisions; a violation is the positive.
type Confusion struct{ TruePositive, FalsePositive, TrueNegative, FalseNegative int }

// Decide counts the correct and wrong decisions when scores above the threshold are
// violations.
func Decide(scores []float64, violation []bool, threshold float64) Confusion {
	var c Confusion
	for i, score := range scores {
		switch flagged := score > threshold; {
		case flagged && violation[i]:
			c.TruePositive++
		case flagged:
			c.FalsePositive++
		case violation[i]:
			c.FalseNegative++
		default:
			c.TrueNegative++
		}
	}
	return c
}

// AvgAcc is the mean of the recalls of both classes, also called balanced
// accuracy: the measure of the BFGPU paper. With bags of one label it is the
// recall of that one.
func (c Confusion) AvgAcc() float64 {
	violation, compliant := c.Recalls()
	switch {
	case math.IsNaN(violation):
		return compliant
	case math.IsNaN(compliant):
		return violation
	}
	return (violation + compliant) / 2
}

// Recalls returns the share of violations that were flagged and that of
// compliant bags that were not; NaN for a class without bags.
func (c Confusion) Recalls() (violation, compliant float64) {
	return ratio(c.TruePositive, c.TruePositive+c.FalseNegative), ratio(c.TrueNegative, c.TrueNegative+c.FalsePositive)
}

// F1 returns the harmonic mean of precision and recall of each class; NaN for a
// class that neither occurs nor is ever decided for.
func (c Confusion) F1() (violation, compliant float64) {
	wrong := c.FalsePositive + c.FalseNegative
	return ratio(2*c.TruePositive, 2*c.TruePositive+wrong), ratio(2*c.TrueNegative, 2*c.TrueNegative+wrong)
}

func (c Confusion) metrics() map[string]float64 {
	out := map[string]float64{"avg_acc": c.AvgAcc()}
	set := func(name string, value float64) {
		if !math.IsNaN(value) {
			out[name] = value
		}
	}
	violation, compliant := c.Recalls()
	set("recall_violation", violation)
	set("recall_compliant", compliant)
	violation, compliant = c.F1()
	set("f1_violation", violation)
	set("f1_compliant", compliant)
	return out
}

func ratio(part, whole int) float64 {
	if whole == 0 {
		return math.NaN()
	}
	return float64(part) / float64(whole)
}

// AUROC is the probability that a positive scores above a negative, a tie
// counting one half: the Mann-Whitney statistic over mid-ranks. NaN when one
// class is empty.
func AUROC(scores []float64, positive []bool) float64 {
	order := ascending(scores)
	positives, rankSum := 0, 0.0
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && scores[order[to]] == scores[order[from]] {
			to++
		}
		for _, i := range order[from:to] {
			if positive[i] {
				positives++
				rankSum += float64(from+to+1) / 2 // mean of the ranks from+1 ... to
			}
		}
		from = to
	}
	negatives := len(scores) - positives
	if positives == 0 || negatives == 0 {
		return math.NaN()
	}
	least := float64(positives) * float64(positives+1) / 2
	return (rankSum - least) / (float64(positives) * float64(negatives))
}

// AUPRC is the average precision: the sum over the distinct scores, from the
// largest, of the precision times the gain of recall, without interpolation.
// NaN when no example is positive.
func AUPRC(scores []float64, positive []bool) float64 {
	order := ascending(scores)
	slices.Reverse(order)
	found, sum := 0, 0.0
	for from := 0; from < len(order); {
		to, gain := from, 0
		for ; to < len(order) && scores[order[to]] == scores[order[from]]; to++ {
			if positive[order[to]] {
				gain++
			}
		}
		found += gain
		sum += float64(gain) * float64(found) / float64(to)
		from = to
	}
	if found == 0 {
		return math.NaN()
	}
	return sum / float64(found)
}

func ascending(scores []float64) []int {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(scores[a], scores[b]) })
	return order
}

// Brier is the mean squared difference of probability and outcome; NaN for no scores.
func Brier(probabilities []float64, outcome []bool) float64 {
	sum := 0.0
	for i, p := range probabilities {
		if outcome[i] {
			p--
		}
		sum += p * p
	}
	return sum / float64(len(probabilities))
}

// ECE is the expected calibration error (Naeini et al. 2015) over bins of equal
// width, [0,1/bins), ..., [1-1/bins,1]: the mean distance of a bin's mean
// probability from its share of positives, weighted by size. NaN for no scores.
func ECE(probabilities []float64, outcome []bool, bins int) float64 {
	excess := make([]float64, bins) // sum of probability minus outcome
	for i, p := range probabilities {
		at := min(int(p*float64(bins)), bins-1)
		if outcome[i] {
			p--
		}
		excess[at] += p
	}
	sum := 0.0
	for _, e := range excess {
		sum += math.Abs(e)
	}
	return sum / float64(len(probabilities))
}

// WitnessHit is 1 when the instance that scores highest is anomalous by Gold and
// 0 when it is not; instances that tie for the highest share the hit.
func WitnessHit(b BagScores) float64 {
	top, hits, ties := b.Violation(), 0, 0
	for i, v := range b.Violations {
		if v == top {
			ties++
			if b.Gold[i] {
				hits++
			}
		}
	}
	return ratio(hits, ties)
}
