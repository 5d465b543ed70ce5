// Package gate decides whether a newly trained model may replace the current one,
// and maps its rewards to the scale of that one.
//
// A candidate is promoted when it is not degenerate, when it is shown to be not
// worse than the current model, and when its rewards stay comparable:
//
//   - Not degenerate: every score is finite, the scores differ, and the
//     threshold lies between them.
//   - Not inferior to the current model, on held-out feedback and on the
//     regression set: the lower confidence bound of the metric's difference, by
//     a paired bootstrap over bags, is not below -margin. Both sets must pass,
//     so that testing twice makes a wrong promotion no likelier.
//   - Not inferior to the anchors, by the same margins: on the hold-out to the
//     best version so far, on the regression set to the model that it came with.
//     Without them each promotion could cost a margin, and twenty of them
//     twenty margins (TestAnchorStopsTheRatchet).
//   - Comparable: on the probe set the compliance reward moves by no more than
//     a limit, after the candidate's rewards were mapped to the distribution of
//     the current model's (package calibration).
//
// # Several aspects
//
// Of a model with several aspects each is decided as a model of its own, and the
// candidate is promoted when no aspect rejects it: one that improves an aspect and
// worsens another is rejected. The verdict on the whole response (the worst aspect) is
// compared as well where enough bags have a label of the whole.
//
// The shift is limited for each aspect, and for the combined reward, which may move
// further than any of them: where each of three aspects moves in another fifth of the
// responses, their minimum moves in three fifths.
//
// At least one aspect needs enough labels in the hold-out. An aspect without them is
// not judged on the hold-out, so that nothing but the probe set shows what happens to
// it: there its rewards must stay within the limit of the shift after calibration, as
// they would be served, and the change is averaged over the responses that the
// current model calls violations and over the others, half each. Otherwise an aspect
// with few violations could lose all of them within the limit.
//
// # Too little data
//
// Too little data never relaxes a check. A hold-out or a regression set with
// fewer than MinBags bags of a label is rejected, and so is a probe set with fewer
// than MinBags bags. The limit of the shift is lifted in three cases only: the
// settings lift it, the current model is untrained, or the hold-out shows that
// the current model ranks hardly better than chance. The last one takes an upper
// confidence bound of its AUROC of at most 0.6; that the hold-out does not show
// that the model is better than chance is not enough.
//
// # Error rates
//
// The burden of proof is on the candidate, so that a small hold-out keeps good
// candidates out rather than lets bad ones in. TestErrorRates simulates two
// models whose AUROC is 0.80 for the current one and whose scores correlate at
// 0.8 within a label. With the default settings these are the probabilities of
// promotion, by the number of violations and of compliant bags:
//
//	true difference   -0.10   -0.05   -0.02 (the margin)    0    +0.05
//	 20 +  20         0.003   0.039   0.106               0.185   0.582
//	 20 +  80         0.000   0.021   0.107               0.238   0.765
//	 20 + 200         0.000   0.020   0.120               0.256   0.797
//	 50 +  50         0.000   0.012   0.097               0.278   0.886
//	200 + 200         0.000   0.000   0.083               0.502   1.000
//
// A candidate that is worse by the margin itself is promoted in about 10 % of
// cases by design: one minus the confidence. One that is as good is often kept
// out, which costs only a training run; to promote it sooner, widen the
// margin or lower the confidence.
package gate

import (
	"errors"
	"fmt"
	"slices"

	"assay/rewardmodel"
)

// ErrInput is wrapped by the error of Decide for invalid or inconsistent settings
// or scores.
var ErrInput = errors.New("gate: bad input")

// Metric is the metric by which models are compared. All are in [0,1], of whole bags,
// with the violation as the positive class.
type Metric string

// The metrics, as package eval defines them. The first and the last rank bags
// and ignore the threshold; the others evaluate the decisions at T.
const (
	BagAUROC    Metric = "bag_auroc"
	AvgAcc      Metric = "avg_acc"
	F1Violation Metric = "f1_violation"
	BagAUPRC    Metric = "bag_auprc"
)

// Metrics lists every metric, the default first.
func Metrics() []Metric { return []Metric{BagAUROC, AvgAcc, F1Violation, BagAUPRC} }

// MinBags is the default minimum of bags of each label. Of candidates whose
// AUROC is worse by 0.05, 22 % passed in simulations with 5 of each, and 4 % with
// 20 of each.
const MinBags = 20

// Config holds the settings. Start from DefaultConfig: a zero has a meaning.
type Config struct {
	Metric Metric `json:"metric"`
	// Margin is the maximum deterioration of the metric on the hold-out, in [0,1],
	// and RegressionMargin that on the regression set.
	Margin           float64 `json:"margin"`
	RegressionMargin float64 `json:"regression_margin"`
	// Confidence is that of the one-sided bound, in [0.5,1).
	Confidence float64 `json:"confidence"`
	// MinBags is the minimum of bags of each label in the hold-out; at least 1.
	// Up to the default it is also that of the regression set, and of all bags
	// in the probe set, which do not grow with the feedback.
	MinBags int `json:"min_bags"`
	// MaxShift is the largest mean absolute change of the compliance reward on
	// the probe set, after calibration, in [0,1]; AllowShift lifts it.
	MaxShift   float64 `json:"max_shift"`
	AllowShift bool    `json:"allow_shift"`
	// Resamples and Seed are those of the bootstrap; at least 100 resamples.
	Resamples int    `json:"resamples"`
	Seed      uint64 `json:"seed"`
}

// DefaultConfig returns the default settings: those of "assay gate" and of the
// service. The regression margin is wider because a regression set of 120 bags,
// as the shipped model has, cannot show much less.
func DefaultConfig() Config {
	return Config{
		Metric: BagAUROC, Margin: 0.02, RegressionMargin: 0.05, Confidence: 0.9, MinBags: MinBags, MaxShift: 0.3, Resamples: 1000,
	}
}

// minOther is the minimum for the sets that do not grow with the feedback.
func (c Config) minOther() int { return min(c.MinBags, MinBags) }

// Validate names every setting that is out of its range.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%w: "+format, append([]any{ErrInput}, args...)...))
		}
	}
	check(slices.Contains(Metrics(), c.Metric), "metric is %q; use one of %v", c.Metric, Metrics())
	check(c.Margin >= 0 && c.Margin <= 1, "margin is %v; it must be in [0,1]", c.Margin)
	check(c.RegressionMargin >= 0 && c.RegressionMargin <= 1, "regression margin is %v; it must be in [0,1]", c.RegressionMargin)
	check(c.Confidence >= 0.5 && c.Confidence < 1, "confidence is %v; it must be in [0.5,1)", c.Confidence)
	check(c.MinBags >= 1, "min bags is %d; it must be positive", c.MinBags)
	check(c.MaxShift >= 0 && c.MaxShift <= 1, "max shift is %v; it must be in [0,1]", c.MaxShift)
	check(c.Resamples >= 100, "resamples is %d; give at least 100", c.Resamples)
	return errors.Join(errs...)
}

// Model describes a model, in addition to its scores.
type Model struct {
	Version string
	// Thresholds is T per aggregate, in [0,1]; without one for max it is 0.5,
	// and the others default to that of max.
	Thresholds map[rewardmodel.Aggregate]float64
	// Calibration is the map of the model; nil: none. It is ignored for the
	// candidate, whose calibration the gate fits.
	Calibration rewardmodel.Calibration
	// Aspects are the names of the aspects in the order of the model, if there are
	// several. Models with other aspects cannot be compared. Weights are theirs, nil: 1
	// each, and Combination is how they become one reward.
	Aspects     []string
	Weights     []float64
	Combination rewardmodel.Combination
	// Untrained reports that the scores are meaningless, so that the rewards of a
	// candidate need not be comparable to them.
	Untrained bool
}

func (m Model) threshold(a rewardmodel.Aggregate) float64 {
	for _, name := range []rewardmodel.Aggregate{a, rewardmodel.AggregateMax} {
		if t, ok := m.Thresholds[name]; ok {
			return t
		}
	}
	return 0.5
}

// Margins are the scores of the bags of a set, in order: the logit of each
// bag's violation, by each aggregate (rewardmodel's Aggregate.Margin), less the length
// correction of the model (Aspect.LengthShift), so that one threshold fits all lengths.
// Those of max are required on every set, the others only on the probe set, for
// calibration.
type Margins map[rewardmodel.Aggregate][]float64

// Bags is a set that both models have scored.
type Bags struct {
	Violation          []bool // the labels; nil on the probe set
	Current, Candidate Margins
}

// Reference is a further model that the candidate is compared with on one set.
type Reference struct {
	Model
	Margins Margins // of the bags of that set; those of max are required
}

// size is the number of bags.
func (b Bags) size() int { return len(b.Current[rewardmodel.AggregateMax]) }

// Input is the input of a decision.
type Input struct {
	Current, Candidate Model
	Holdout            Bags // labeled feedback that neither model was trained on
	Regression         Bags // the regression set; empty: ignored
	Probe              Bags // recently scored or similar responses; no labels
	// HoldoutAnchor is the best version so far, and RegressionAnchor the model
	// that the regression set came with; nil: the current model is.
	HoldoutAnchor, RegressionAnchor *Reference
	// Aspects are the inputs of each aspect by name, for a model with several; the
	// other fields are then of the verdict on the whole response, whose thresholds
	// the margins contain, and without a probe set. The versions are those of the other
	// fields, and the probe sets those of the same responses.
	Aspects map[string]Input
}

func (in Input) validate() error {
	models := []Model{in.Current, in.Candidate}
	for _, anchor := range in.anchors() {
		models = append(models, anchor.Model)
		margins := anchor.Margins[rewardmodel.AggregateMax]
		if len(margins) != anchor.set.size() {
			return fmt.Errorf("%w: the %s has %d bags and %d scores of its anchor %s", ErrInput, anchor.name, anchor.set.size(), len(margins), anchor.Version)
		}
		if !allFinite(margins) {
			return fmt.Errorf("%w: scores of the anchor %s on the %s are not finite", ErrInput, anchor.Version, anchor.name)
		}
	}
	for _, m := range models {
		for a, t := range m.Thresholds {
			if !(t >= 0 && t <= 1) {
				return fmt.Errorf("%w: model %s: the threshold of %s is %v; it must be in [0,1]", ErrInput, m.Version, a, t)
			}
		}
	}
	if err := in.Current.Calibration.Validate(); err != nil {
		return fmt.Errorf("%w: the current model's calibration: %w", ErrInput, err)
	}
	for _, set := range in.sets() {
		n, name := set.size(), set.name
		if labels := len(set.Violation); labels != n && (labels > 0 || name != probeSet) {
			return fmt.Errorf("%w: the %s has %d labels and %d bags", ErrInput, name, labels, n)
		}
		for _, a := range rewardmodel.Aggregates() {
			current, candidate := set.Current[a], set.Candidate[a]
			if len(current) != len(candidate) || len(current) != n && len(current) != 0 {
				return fmt.Errorf("%w: the %s has %d bags, but for %s %d scores of the current model and %d of the candidate",
					ErrInput, name, n, a, len(current), len(candidate))
			}
			if !allFinite(current) {
				return fmt.Errorf("%w: scores of the current model on the %s are not finite", ErrInput, name)
			}
		}
	}
	return nil
}
