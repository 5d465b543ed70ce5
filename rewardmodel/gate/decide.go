package gate

import (
	"fmt"
	"math"

	"github.com/assay-ai/assay/rewardmodel"
	"github.com/assay-ai/assay/rewardmodel/calibration"
)

// Bounds of what is degenerate.
const (
	minSpread    = 1e-3 // of the margins of a set
	minThreshold = 1e-3 // and 1 minus this
)

// decision gathers a report.
type decision struct {
	cfg    Config
	in     Input
	report Report
}

// Decide compares the candidate with the current model. The same arguments give
// the same report. The error wraps ErrInput, for settings out of range, sets
// whose parts differ in length, and scores of the current model that are not
// finite; those of the candidate are a reason to reject it.
func Decide(cfg Config, in Input) (Report, error) {
	if err := cfg.Validate(); err != nil {
		return Report{}, err
	}
	if err := in.validate(); err != nil {
		return Report{}, err
	}
	d := &decision{cfg: cfg, in: in, report: Report{
		Reasons: []string{}, Notes: []string{}, Settings: cfg,
		Current: in.Current.Version, Candidate: in.Candidate.Version, Untrained: in.Current.Untrained,
	}}
	d.threshold()
	if d.finite() {
		d.spread()
		d.report.Holdout = d.compare(holdoutSet, in.Holdout, cfg.Margin, holdoutFix)
		if in.Regression.size() > 0 {
			d.report.Regression = d.compare(regressionSet, in.Regression, cfg.RegressionMargin, regressionFix)
		}
		d.calibrate()
		d.shift()
	}
	d.report.Promote = len(d.report.Reasons) == 0
	return d.report, nil
}

func (d *decision) reject(format string, args ...any) {
	d.report.Reasons = append(d.report.Reasons, fmt.Sprintf(format, args...))
}

func (d *decision) note(format string, args ...any) {
	d.report.Notes = append(d.report.Notes, fmt.Sprintf(format, args...))
}

// threshold rejects a threshold at an end: nothing would be on its other side.
func (d *decision) threshold() {
	if t := d.in.Candidate.threshold(rewardmodel.AggregateMax); t <= minThreshold || t >= 1-minThreshold {
		d.reject("The candidate's threshold is %.4g, at the end of its range: it would decide nearly all responses alike.", t)
	}
}

// sets are the three sets and how they are called.
func (in Input) sets() []namedBags {
	return []namedBags{{holdoutSet, in.Holdout}, {regressionSet, in.Regression}, {probeSet, in.Probe}}
}

// How reasons call the sets.
const (
	holdoutSet    = "hold-out"
	regressionSet = "regression set"
	probeSet      = "probe set"
)

type namedBags struct {
	name string
	Bags
}

// finite rejects scores that are not numbers.
func (d *decision) finite() bool {
	for _, set := range d.in.sets() {
		bad, bags := 0, 0
		for _, margins := range set.Candidate {
			bad += countNotFinite(margins)
			bags += len(margins)
		}
		if bad > 0 {
			d.reject("%d of %d scores of the candidate on the %s are not finite.", bad, bags, set.name)
			return false
		}
	}
	return true
}

// spread rejects scores that do not tell responses apart.
func (d *decision) spread() {
	for _, set := range d.in.sets() {
		margins := set.Candidate[rewardmodel.AggregateMax]
		if len(margins) < 2 {
			continue
		}
		least, largest := bounds(margins)
		if largest-least < minSpread {
			d.reject("The candidate's scores are constant on the %s: the margins of %d bags lie within %.2g.", set.name, len(margins), largest-least)
		}
	}
	set, t := d.in.Holdout, logit(d.in.Candidate.threshold(rewardmodel.AggregateMax))
	violations := count(set.Violation)
	if violations == 0 || violations == len(set.Violation) {
		return
	}
	switch least, largest := bounds(set.Candidate[rewardmodel.AggregateMax]); {
	case largest <= t:
		d.reject("The candidate calls all %d bags of the hold-out compliant, of which %d are violations.", set.size(), violations)
	case least > t:
		d.reject("The candidate calls all %d bags of the hold-out violations, of which %d are.", set.size(), violations)
	}
}

// What a set that is too small needs.
const (
	holdoutFix    = "wait for more feedback of that label"
	regressionFix = "add bags of that label to it, or remove it"
)

// compare tests for non-inferiority on a set.
func (d *decision) compare(name string, set Bags, margin float64, fix string) *Comparison {
	violations := count(set.Violation)
	compliant := len(set.Violation) - violations
	if least := min(violations, compliant); least < d.cfg.MinBags {
		label := "violations"
		if compliant == least {
			label = "compliant bags"
		}
		d.reject("The %s has %d %s, but %d are needed to compare the models; %s.", name, least, label, d.cfg.MinBags, fix)
		return nil
	}
	c := comparison(d.cfg, set, margin,
		d.in.Current.threshold(rewardmodel.AggregateMax), d.in.Candidate.threshold(rewardmodel.AggregateMax))
	if !c.Passed {
		d.reject("On the %s (%d bags, %d violations) the candidate's %s is %.3f and the current model's %.3f; "+
			"at confidence %g it may be worse by %.3f, more than the margin of %g.",
			name, c.Bags, c.Violations, c.Metric, c.Candidate, c.Current, d.cfg.Confidence, -c.Interval[0], margin)
	}
	return &c
}

// calibrate maps the candidate's rewards to the scale of the current model's.
func (d *decision) calibrate() {
	probe := d.in.Probe
	if d.in.Current.Untrained || probe.size() == 0 {
		return
	}
	fitted := rewardmodel.Calibration{}
	for _, a := range rewardmodel.Aggregates() {
		t, before := d.in.Candidate.threshold(a), d.in.Current.threshold(a)
		if len(probe.Current[a]) == 0 || !(t > 0 && t < 1 && before > 0 && before < 1) {
			continue
		}
		m := calibration.Fit(logOdds(probe.Candidate[a], t, calibration.Map{}), logOdds(probe.Current[a], before, d.in.Current.Calibration[a]))
		if m.From != nil {
			fitted[a] = m
		}
	}
	if len(fitted) == 0 {
		d.note("The probe set has %d bags, too few on either side of the threshold to calibrate: rewards keep the candidate's own scale.", probe.size())
		return
	}
	d.report.Calibration = fitted
}

// shift measures how the rewards move, and rejects a jump.
func (d *decision) shift() {
	probe := d.in.Probe
	d.report.Chance = d.report.Holdout != nil && chance(d.cfg, d.in.Holdout, d.in.Holdout.Current[rewardmodel.AggregateMax])
	free := d.in.Current.Untrained || d.report.Chance || d.cfg.AllowShift
	if probe.size() == 0 {
		if !free {
			d.reject("There is no probe set, so that nobody knows how far the rewards would move; give one, or allow any shift.")
		}
		return
	}
	s := measureShift(d.in, d.report.Calibration)
	s.Limit = d.cfg.MaxShift
	last, when := s.moved().MeanChange, "without calibration"
	if s.After != nil {
		when = "after calibration"
	}
	s.Exceeded = last > s.Limit
	d.report.Shift = &s
	switch {
	case d.in.Current.Untrained:
		d.note("The current model is untrained: the candidate's rewards have nothing to stay comparable to.")
	case s.Exceeded && d.report.Chance:
		d.note("The compliance rewards of the probe set move by %.3f on average %s, more than %g; but the current model's "+
			"cannot be told from chance on the hold-out, so that there is nothing to stay comparable to.", last, when, s.Limit)
	case s.Exceeded && d.cfg.AllowShift:
		d.note("The compliance rewards of the probe set move by %.3f on average %s, more than %g, which is allowed.", last, when, s.Limit)
	case s.Exceeded:
		d.reject("The compliance rewards of the probe set (%d bags) move by %.3f on average %s, more than the limit of %g; "+
			"raise the limit, or allow any shift, when no training run depends on the old rewards.", s.Bags, last, when, s.Limit)
	}
}

func count(labels []bool) (n int) {
	for _, is := range labels {
		if is {
			n++
		}
	}
	return n
}

func allFinite(values []float64) bool { return countNotFinite(values) == 0 }

func countNotFinite(values []float64) (n int) {
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			n++
		}
	}
	return n
}

// bounds returns the least and the largest value.
func bounds(values []float64) (least, largest float64) {
	least, largest = math.Inf(1), math.Inf(-1)
	for _, v := range values {
		least, largest = min(least, v), max(largest, v)
	}
	return least, largest
}
