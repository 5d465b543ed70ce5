package gate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/rewardmodel"
)

// Report is the decision and its evidence, as JSON.
type Report struct {
	Promote bool     `json:"promote"`
	Reasons []string `json:"reasons"` // why not, each a sentence; empty when it is promoted
	Notes   []string `json:"notes"`   // further findings that did not affect the decision

	Current   string `json:"current"` // the version
	Candidate string `json:"candidate"`
	Untrained bool   `json:"untrained"` // the current model is
	// Chance reports that the hold-out shows that the current model ranks hardly better
	// than chance, in one of the aspects that count.
	Chance bool `json:"chance"`
	// Better reports that the candidate is shown to be better on the hold-out than
	// the best version so far, which it replaces as the anchor if promoted.
	Better   bool   `json:"better"`
	Settings Config `json:"settings"`

	Holdout    *Comparison `json:"holdout,omitzero"`    // nil: it is too small, or scores are not finite
	Regression *Comparison `json:"regression,omitzero"` // nil: there is none
	// Comparisons with the anchors; nil: there is none, or the set is too small.
	HoldoutAnchor    *Comparison `json:"holdout_anchor,omitzero"`
	RegressionAnchor *Comparison `json:"regression_anchor,omitzero"`
	Shift            *Shift      `json:"shift,omitzero"` // nil: there is no probe set, or scores are not finite
	// Calibration is the candidate's, per aggregate; nil: none.
	Calibration rewardmodel.Calibration `json:"calibration,omitzero"`

	// Aspects are the reports of each aspect of a model with several, without those
	// of its own; the reasons above include theirs. The comparisons above are then of
	// the verdict on the whole response, and the shift is that of the combined reward.
	Aspects map[string]AspectReport `json:"aspects,omitzero"`
}

// AspectReport is the decision about one aspect of several; its fields are as in
// Report.
type AspectReport struct {
	// Judged reports that the hold-out has enough labels of the aspect. Otherwise its
	// rewards must not move.
	Judged           bool                    `json:"judged"`
	Reasons          []string                `json:"reasons"`
	Notes            []string                `json:"notes"`
	Chance           bool                    `json:"chance"`
	Better           bool                    `json:"better"`
	Holdout          *Comparison             `json:"holdout,omitzero"`
	Regression       *Comparison             `json:"regression,omitzero"`
	HoldoutAnchor    *Comparison             `json:"holdout_anchor,omitzero"`
	RegressionAnchor *Comparison             `json:"regression_anchor,omitzero"`
	Shift            *Shift                  `json:"shift,omitzero"`
	Calibration      rewardmodel.Calibration `json:"calibration,omitzero"`
}

// Comparison is one metric of the candidate and of the current model, or of an
// anchor in its place, on one set, in [0,1].
type Comparison struct {
	Against    string  `json:"against"` // the version that the candidate is compared with
	Bags       int     `json:"bags"`
	Violations int     `json:"violations"` // of these
	Metric     Metric  `json:"metric"`
	Current    float64 `json:"current"` // of Against
	Candidate  float64 `json:"candidate"`
	Difference float64 `json:"difference"` // Candidate - Current, in [-1,1]
	// Interval contains the difference with probability Coverage. Its lower end
	// is the one-sided bound at the confidence of the settings.
	Interval [2]float64 `json:"interval"`
	Coverage float64    `json:"coverage"` // in [0,1): 2*confidence - 1
	Margin   float64    `json:"margin"`
	Passed   bool       `json:"passed"` // Interval[0] >= -Margin
	// Metrics has every metric of both models, for the record.
	Metrics map[Metric]Pair `json:"metrics"`
}

// Pair is a metric of both models.
type Pair struct {
	Current   float64 `json:"current"`
	Candidate float64 `json:"candidate"`
}

// Shift is the change of the rewards of the probe set when the candidate replaces
// the current model, by the default aggregate.
type Shift struct {
	Bags int `json:"bags"`
	// Flips counts the bags whose decision changes, FlipRate is their share;
	// a calibration changes neither.
	Flips    int       `json:"flips"`
	FlipRate float64   `json:"flip_rate"`
	Before   Distance  `json:"before"`
	After    *Distance `json:"after,omitzero"` // of calibration; nil: none was fitted
	Limit    float64   `json:"limit"`
	Exceeded bool      `json:"exceeded"` // the last MeanChange is above Limit, or BalancedChange
	// BalancedChange is the last MeanChange with half the weight on the responses that
	// the current model calls violations; nil unless it is limited: of an aspect that
	// is not judged on the hold-out, with at least minDecided responses of each kind.
	BalancedChange *float64 `json:"balanced_change,omitzero"`
	Means          Pair     `json:"means"` // of the reward; the candidate's after calibration
}

// Distance is how far two sets of compliance rewards of the same responses are
// apart.
type Distance struct {
	MeanChange float64 `json:"mean_change"` // mean of |difference|, in [0,1]
	KS         float64 `json:"ks"`          // largest distance of the distribution functions, in [0,1]
	// Spearman is the rank correlation, in [-1,1]; nil when one of them is
	// constant. No calibration can fix another order.
	Spearman *float64 `json:"spearman"`
}

// Summary returns the decision and its metrics in a sentence or two.
func (r Report) Summary() string {
	switch {
	case !r.Promote:
		return strings.Join(r.Reasons, " ")
	case len(r.Aspects) == 0:
		return "Not worse than the current model" + r.evidence("") + "."
	}
	out := "Not worse than the current model" + r.evidence("")
	for _, name := range slices.Sorted(maps.Keys(r.Aspects)) {
		a := r.Aspects[name]
		report := Report{Holdout: a.Holdout, Regression: a.Regression, Shift: a.Shift, Settings: r.Settings, Untrained: r.Untrained}
		out += "; " + name + report.evidence(" not judged on the hold-out")
	}
	return out + "."
}

// evidence returns the metrics; none if nothing was compared.
func (r Report) evidence(none string) (out string) {
	for _, compared := range []struct {
		*Comparison
		set string
	}{{r.Holdout, holdoutSet}, {r.Regression, regressionSet}} {
		c := compared.Comparison
		if c == nil {
			continue
		}
		separator := ":"
		if out != "" {
			separator = ","
		}
		out += fmt.Sprintf("%s %s %.3f against %.3f on the %s (%d bags, difference at least %+.3f at confidence %g)",
			separator, c.Metric, c.Candidate, c.Current, compared.set, c.Bags, c.Interval[0], r.Settings.Confidence)
	}
	if out == "" {
		out = none
	}
	if s := r.Shift; s != nil && !r.Untrained {
		out += fmt.Sprintf("; the rewards of the %s move by %.3f on average", probeSet, s.moved().MeanChange)
	}
	return out
}

// moved returns the distance after calibration, if there is one.
func (s Shift) moved() Distance {
	if s.After != nil {
		return *s.After
	}
	return s.Before
}
