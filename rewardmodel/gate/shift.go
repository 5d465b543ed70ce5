package gate

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"assay/rewardmodel"
	"assay/rewardmodel/calibration"
	"assay/rewardmodel/eval"
	"assay/rewardmodel/logistic"
)

// measureShift compares the compliance rewards of the default aggregate on the
// probe set, of which there is at least one bag.
func measureShift(in Input, fitted rewardmodel.Calibration) Shift {
	const a = rewardmodel.AggregateMax
	current := logOdds(in.Probe.Current[a], in.Current.threshold(a), in.Current.Calibration[a])
	candidate := logOdds(in.Probe.Candidate[a], in.Candidate.threshold(a), calibration.Map{})
	var mapped []float64
	if m, ok := fitted[a]; ok {
		mapped = compliance(logOdds(in.Probe.Candidate[a], in.Candidate.threshold(a), m))
	}
	return newShift(compliance(current), compliance(candidate), mapped, flips(current, candidate))
}

// flips counts the log-odds whose decision changes.
func flips(current, candidate []float64) (n int) {
	for i := range current {
		if (current[i] >= 0) != (candidate[i] >= 0) {
			n++
		}
	}
	return n
}

// newShift compares the rewards was and is, which become mapped by a calibration; nil:
// there is none.
func newShift(was, is, mapped []float64, flips int) Shift {
	s := Shift{Bags: len(was), Flips: flips, FlipRate: float64(flips) / float64(len(was)), Before: distance(was, is)}
	if mapped != nil {
		after := distance(was, mapped)
		s.After, is = &after, mapped
	}
	s.Means = Pair{Current: stat.Mean(was, nil), Candidate: stat.Mean(is, nil)}
	return s
}

// minDecided is the minimum number of responses of each decision for balancedChange.
const minDecided = 5

// balancedChange is the mean change of the compliance reward after calibration, with
// half the weight on the responses of the probe set that the current model calls
// violations; nil if it calls too few of them violations or compliant.
func balancedChange(in Input, fitted rewardmodel.Calibration) *float64 {
	const a = rewardmodel.AggregateMax
	was := compliance(logOdds(in.Probe.Current[a], in.Current.threshold(a), in.Current.Calibration[a]))
	is := compliance(logOdds(in.Probe.Candidate[a], in.Candidate.threshold(a), fitted[a]))
	var change [2]float64
	var n [2]float64
	for i, before := range logOdds(in.Probe.Current[a], in.Current.threshold(a), calibration.Map{}) {
		kind := 0
		if before < 0 {
			kind = 1
		}
		change[kind] += math.Abs(is[i] - was[i])
		n[kind]++
	}
	if min(n[0], n[1]) < minDecided {
		return nil
	}
	return new((change[0]/n[0] + change[1]/n[1]) / 2)
}

// distance compares two rewards of the same responses.
func distance(was, is []float64) Distance {
	var d Distance
	for i := range was {
		d.MeanChange += math.Abs(is[i]-was[i]) / float64(len(was))
	}
	if r := eval.Spearman(was, is); !math.IsNaN(r) {
		d.Spearman = &r
	}
	d.KS = stat.KolmogorovSmirnov(slices.Sorted(slices.Values(was)), nil, slices.Sorted(slices.Values(is)), nil)
	return d
}

// logOdds are the compliance log-odds of bags: those of T less their margin,
// mapped.
func logOdds(margins []float64, threshold float64, m calibration.Map) []float64 {
	out := make([]float64, len(margins))
	for i, margin := range margins {
		out[i] = m.At(logistic.Logit(threshold) - margin)
	}
	return out
}

func compliance(logOdds []float64) []float64 {
	out := make([]float64, len(logOdds))
	for i, z := range logOdds {
		out[i] = logistic.Sigmoid(z)
	}
	return out
}
