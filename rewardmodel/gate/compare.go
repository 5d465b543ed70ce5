package gate

import (
	"iter"
	"slices"

	"gonum.org/v1/gonum/stat"

	"assay/rewardmodel"
	"assay/rewardmodel/eval"
	"assay/rewardmodel/logistic"
)

// value is a metric of scores, in [0,1]; both labels occur in truth.
func (m Metric) value(margins []float64, truth []bool, threshold float64) float64 {
	switch m {
	case AvgAcc:
		return eval.Decide(margins, truth, logistic.Logit(threshold)).AvgAcc()
	case F1Violation:
		f1, _ := eval.Decide(margins, truth, logistic.Logit(threshold)).F1()
		return f1
	case BagAUPRC:
		return eval.AUPRC(margins, truth)
	default:
		return eval.AUROC(margins, truth)
	}
}

// scored has the scores of one model on a set.
type scored struct {
	margins   []float64
	threshold float64
}

// comparison measures both models on a set with bags of both labels.
func comparison(cfg Config, set Bags, margin, currentT, candidateT float64) Comparison {
	current := scored{set.Current[rewardmodel.AggregateMax], currentT}
	candidate := scored{set.Candidate[rewardmodel.AggregateMax], candidateT}
	c := Comparison{
		Bags: len(set.Violation), Violations: count(set.Violation), Metric: cfg.Metric,
		Coverage: 2*cfg.Confidence - 1, Margin: margin, Metrics: map[Metric]Pair{},
	}
	for _, m := range Metrics() {
		c.Metrics[m] = Pair{
			Current:   m.value(current.margins, set.Violation, current.threshold),
			Candidate: m.value(candidate.margins, set.Violation, candidate.threshold),
		}
	}
	c.Current, c.Candidate = c.Metrics[cfg.Metric].Current, c.Metrics[cfg.Metric].Candidate
	c.Difference = c.Candidate - c.Current
	sampled := differences(cfg.Metric, set.Violation, current, candidate, eval.Resamples(set.Violation, cfg.Resamples, cfg.Seed))
	slices.Sort(sampled)
	c.Interval = [2]float64{
		stat.Quantile(1-cfg.Confidence, stat.LinInterp, sampled, nil),
		stat.Quantile(cfg.Confidence, stat.LinInterp, sampled, nil),
	}
	const rounding = 1e-9
	c.Passed = c.Interval[0] >= -margin-rounding
	return c
}

// differences returns candidate minus current for each resample of bags. Both
// models score the same bags, so that the difficulty of the bags cancels out.
func differences(m Metric, truth []bool, current, candidate scored, draws iter.Seq[[]int]) []float64 {
	var out []float64
	labels, a, b := make([]bool, len(truth)), make([]float64, len(truth)), make([]float64, len(truth))
	for draw := range draws {
		for i, from := range draw {
			labels[i], a[i], b[i] = truth[from], current.margins[from], candidate.margins[from]
		}
		out = append(out, m.value(b, labels, candidate.threshold)-m.value(a, labels, current.threshold))
	}
	return out
}

// chanceCeiling is the AUROC up to which scores are hardly better than chance.
const chanceCeiling = 0.6

// chance reports whether margins are shown, at the confidence of the settings, to
// rank the bags hardly better than chance, which a small set cannot show. Both
// labels occur in the set.
func chance(cfg Config, set Bags, margins []float64) bool {
	var sampled []float64
	labels, scores := make([]bool, len(margins)), make([]float64, len(margins))
	for draw := range eval.Resamples(set.Violation, cfg.Resamples, cfg.Seed) {
		for i, from := range draw {
			labels[i], scores[i] = set.Violation[from], margins[from]
		}
		sampled = append(sampled, eval.AUROC(scores, labels))
	}
	slices.Sort(sampled)
	return stat.Quantile(cfg.Confidence, stat.LinInterp, sampled, nil) <= chanceCeiling
}
