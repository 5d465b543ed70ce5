package gate

import (
	"fmt"
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
	Chance    bool   `json:"chance"`    // the hold-out shows that the current model ranks hardly better than chance
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
	Exceeded bool      `json:"exceeded"` // the last MeanChange is above Limit
	Means    Pair      `json:"means"`    // of the reward; the candidate's after calibration
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
	if !r.Promote {
		return strings.Join(r.Reasons, " ")
	}
	out := "Not worse than the current model"
	for i, c := range []*Comparison{r.Holdout, r.Regression} {
		if c == nil {
			continue
		}
		out += fmt.Sprintf("%s %s %.3f against %.3f on the %s (%d bags, difference at least %+.3f at confidence %g)",
			[]string{":", ","}[i], c.Metric, c.Candidate, c.Current, []string{holdoutSet, regressionSet}[i], c.Bags, c.Interval[0], r.Settings.Confidence)
	}
	if s := r.Shift; s != nil && !r.Untrained {
		out += fmt.Sprintf("; the rewards of the %s move by %.3f on average", probeSet, s.moved().MeanChange)
	}
	return out + "."
}

// moved returns the distance after calibration, if there is one.
func (s Shift) moved() Distance {
	if s.After != nil {
		return *s.After
	}
	return s.Before
}
