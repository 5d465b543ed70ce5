// Package eval measures how well the scores of instances detect violating responses
// and locate the violating utterance.
//
// A bag counts as a violation when its largest instance score, corrected for the
// length of the bag where a model has a correction, is above the threshold. The
// positive class of every ranking and probability metric is the violation. Metrics are in [0,1]; one that is undefined for the data (an AUROC
// of bags of one label, a hit rate without gold marks) is absent.
package eval

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"

	"assay/rewardmodel/bag"
)

// ErrInput is wrapped by the error of Evaluate for scores that cannot be measured.
var ErrInput = errors.New("eval: bad scores")

// BagScores is a labeled bag after scoring.
type BagScores struct {
	Label      bag.Label
	Violations []float64 // g_-1 of each instance, in [0,1]
	Gold       []bool    // whether each instance is anomalous; nil when unknown
	// Comparison names the bags among which the label holds; "": it is that of a rule.
	Comparison string
	// Corrected is the score by which the bag is ranked and compared with the threshold,
	// in [0,1], if its length changes that; nil: Violation.
	Corrected *float64

	// Spans place each instance in the response, as [start, end) in code points;
	// GoldSpans are the anomalous ranges of the response, in the same unit, and
	// may overlap. Either is nil when unknown; the span metrics need both.
	Spans     [][2]int
	GoldSpans [][2]int
}

// Score is the score by which the bag is ranked and compared with the threshold.
func (b BagScores) Score() float64 {
	if b.Corrected != nil {
		return *b.Corrected
	}
	return b.Violation()
}

// Violation is the violation of the bag: the largest of its instances', 0 without any.
func (b BagScores) Violation() float64 {
	if len(b.Violations) == 0 {
		return 0
	}
	return slices.Max(b.Violations)
}

// mixed reports whether the bag is a violation with gold marks of both kinds.
func (b BagScores) mixed() bool {
	return b.Label == bag.Violation && slices.Contains(b.Gold, true) && slices.Contains(b.Gold, false)
}

// Bootstrap configures percentile intervals from resampling whole bags.
type Bootstrap struct {
	Resamples int     // 0: no intervals
	Level     float64 // coverage in (0,1); 0 means 0.95
	Seed      uint64
}

// Evaluate returns all metrics of the bags at a decision threshold, in [0,1].
// The same arguments give the same report. The error wraps ErrInput and names
// the bag when a label, a score, a span or the number of gold marks or spans is
// not valid, or when there are no bags.
func Evaluate(bags []BagScores, threshold float64, intervals Bootstrap) (Report, error) {
	if err := check(bags, threshold, intervals); err != nil {
		return Report{}, err
	}
	labeled, compared := divide(bags)
	report := Report{Metrics: map[string]float64{}}
	if len(labeled) > 0 {
		report.Metrics = measure(labeled, threshold)
	}
	if intervals.Resamples > 0 {
		report.Intervals = bootstrap(labeled, threshold, intervals, report.Metrics)
	}
	if right := rankedRight(compared); len(right) > 0 {
		report.Metrics[comparisonAccuracy] = stat.Mean(right, nil)
		if intervals.Resamples > 0 {
			report.Intervals[comparisonAccuracy] = intervals.interval(resampledMeans(right, intervals))
		}
	}
	return report, nil
}

func check(bags []BagScores, threshold float64, intervals Bootstrap) error {
	if len(bags) == 0 {
		return fmt.Errorf("%w: there are no bags", ErrInput)
	}
	if !(threshold >= 0 && threshold <= 1) {
		return fmt.Errorf("%w: threshold %v is not in [0,1]", ErrInput, threshold)
	}
	if intervals.Resamples < 0 || !(intervals.Level >= 0 && intervals.Level < 1) {
		return fmt.Errorf("%w: %d resamples at level %v; give at least 0, and a level in (0,1)",
			ErrInput, intervals.Resamples, intervals.Level)
	}
	for i, b := range bags {
		if b.Label != bag.Compliant && b.Label != bag.Violation {
			return fmt.Errorf("%w: bag %d has label %q", ErrInput, i, b.Label)
		}
		if b.Gold != nil && len(b.Gold) != len(b.Violations) {
			return fmt.Errorf("%w: bag %d has %d gold marks for %d instances", ErrInput, i, len(b.Gold), len(b.Violations))
		}
		if b.Spans != nil && len(b.Spans) != len(b.Violations) {
			return fmt.Errorf("%w: bag %d has %d spans for %d instances", ErrInput, i, len(b.Spans), len(b.Violations))
		}
		for _, span := range slices.Concat(b.Spans, b.GoldSpans) {
			if span[0] < 0 || span[0] >= span[1] {
				return fmt.Errorf("%w: bag %d has the span %v; give 0 <= start < end", ErrInput, i, span)
			}
		}
		if c := b.Corrected; c != nil && !(*c >= 0 && *c <= 1) {
			return fmt.Errorf("%w: bag %d: corrected score %v is not in [0,1]", ErrInput, i, *c)
		}
		for j, v := range b.Violations {
			if !(v >= 0 && v <= 1) {
				return fmt.Errorf("%w: bag %d, instance %d: violation %v is not in [0,1]", ErrInput, i, j, v)
			}
		}
	}
	return nil
}

// measure returns the metrics that the bags define, by name.
func measure(bags []BagScores, threshold float64) map[string]float64 {
	scores, violations := make([]float64, len(bags)), make([]float64, len(bags))
	truth := make([]bool, len(bags))
	var instances, mixed ranking
	hits, holding := 0.0, 0
	var spans struct{ iou, f1, best, count float64 }
	for i, b := range bags {
		scores[i], violations[i], truth[i] = b.Score(), b.Violation(), b.Label == bag.Violation
		if b.located() {
			witness, best := spanOverlap(b)
			spans.iou += witness.iou
			spans.f1 += witness.f1
			spans.best += best
			spans.count++
		}
		if b.Gold == nil {
			continue
		}
		instances.add(b)
		if b.mixed() {
			mixed.add(b)
			hits += WitnessHit(b)
			holding++
		}
	}
	out := map[string]float64{
		"ece":   ECE(violations, truth, calibrationBins),
		"brier": Brier(violations, truth),
	}
	if holding > 0 {
		out["witness_hit1"] = hits / float64(holding)
	}
	if spans.count > 0 {
		out["span_iou"] = spans.iou / spans.count
		out["span_f1"] = spans.f1 / spans.count
		out["span_iou_best"] = spans.best / spans.count
	}
	for name, value := range Decide(scores, truth, threshold).metrics() {
		out[name] = value
	}
	for name, value := range map[string]float64{
		"bag_auroc":            AUROC(scores, truth),
		"bag_auprc":            AUPRC(scores, truth),
		"instance_auroc":       AUROC(instances.scores, instances.truth),
		"instance_auroc_mixed": AUROC(mixed.scores, mixed.truth),
	} {
		if !math.IsNaN(value) {
			out[name] = value
		}
	}
	return out
}

// ranking collects instances with gold marks.
type ranking struct {
	scores []float64
	truth  []bool
}

func (r *ranking) add(b BagScores) {
	r.scores = append(r.scores, b.Violations...)
	r.truth = append(r.truth, b.Gold...)
}

// bootstrap returns the percentile interval of each of the metrics (Efron and
// Tibshirani 1993, section 13.3). Whole bags are resampled, because the instances
// of one bag are not independent.
func bootstrap(bags []BagScores, threshold float64, how Bootstrap, metrics map[string]float64) map[string][2]float64 {
	rng := rand.New(rand.NewPCG(how.Seed, 0xb007))
	draws := map[string][]float64{}
	sample := make([]BagScores, len(bags))
	for range how.Resamples {
		for i := range sample {
			sample[i] = bags[rng.IntN(len(bags))]
		}
		for name, value := range measure(sample, threshold) {
			draws[name] = append(draws[name], value)
		}
	}
	out := map[string][2]float64{}
	for name := range metrics {
		values := draws[name]
		if len(values) > 0 {
			out[name] = how.interval(values)
		}
	}
	return out
}

// interval is the percentile interval of the values of a metric on resampled bags, which it sorts.
func (how Bootstrap) interval(values []float64) [2]float64 {
	level := how.Level
	if level == 0 {
		level = 0.95
	}
	slices.Sort(values)
	return [2]float64{
		stat.Quantile((1-level)/2, stat.LinInterp, values, nil),
		stat.Quantile((1+level)/2, stat.LinInterp, values, nil),
	}
}
