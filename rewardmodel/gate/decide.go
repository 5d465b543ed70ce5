package gate

import (
	"fmt"
	"math"

	"assay/rewardmodel"
	"assay/rewardmodel/calibration"
	"assay/rewardmodel/logistic"
)

// MinSeparation is the least distance of the mean reward of compliant bags from that of violations, on the scale of
// compliance, in [0,1].
const MinSeparation = 0.02

// Bounds of what is degenerate.
const (
	minSpread    = 1e-3 // of the margins of a set
	saturated    = 1e-6 // distance of a threshold or a compliance from 0 or 1
	maxSaturated = 0.9  // share of a set
)

// decision builds a report.
type decision struct {
	cfg     Config
	in      Input
	report  Report
	several bool // it is about one aspect of several: it may lack labels
	judged  bool // the hold-out is large enough
}

// Decide compares the candidate with the current model. The same arguments give
// the same report. The error wraps ErrInput, for settings out of range, sets
// whose parts differ in length, and scores of the current model that are not
// finite; those of the candidate are a reason to reject it.
func Decide(cfg Config, in Input) (Report, error) {
	if err := cfg.Validate(); err != nil {
		return Report{}, err
	}
	d := &decision{cfg: cfg, in: in, report: Report{
		Reasons: []string{}, Notes: []string{}, Settings: cfg,
		Current: in.Current.Version, Candidate: in.Candidate.Version, Untrained: in.Current.Untrained,
	}}
	if !SameAspects(in.Current.Aspects, in.Candidate.Aspects) {
		d.reject("The candidate has other aspects (%s) than the current model (%s), so that they cannot be compared: "+
			"train with the aspects of the current model, or promote the candidate by hand.",
			aspectNames(in.Candidate.Aspects), aspectNames(in.Current.Aspects))
		return d.report, nil
	}
	if err := in.validate(); err != nil {
		return Report{}, err
	}
	if cfg.MinBags < MinBags {
		d.note("The hold-out may have as few as %d bags of each label; with fewer than %d, models that are worse are promoted too often.", cfg.MinBags, MinBags)
	}
	if len(in.Aspects) > 0 {
		if err := d.aspects(); err != nil {
			return Report{}, err
		}
	} else {
		d.decide()
	}
	d.report.Promote = len(d.report.Reasons) == 0
	return d.report, nil
}

// decide decides about a model with one aspect, or about one aspect of several. It
// returns whether the scores of the candidate are finite.
func (d *decision) decide() (finite bool) {
	d.judged = d.in.Holdout.enough(d.cfg.MinBags)
	d.threshold()
	if !d.finite() {
		return false
	}
	d.spread()
	switch {
	case d.judged:
		d.report.Holdout = d.compare(holdoutSet, d.in.Holdout, d.in.Current, "current model", d.cfg.Margin)
	case d.several:
		d.note("%s; its rewards must not move instead.", d.tooFew(holdoutSet, d.in.Holdout, d.cfg.MinBags))
	default:
		d.reject("%s; wait for more feedback.", d.tooFew(holdoutSet, d.in.Holdout, d.cfg.MinBags))
	}
	d.regression()
	d.anchors()
	d.calibrate()
	d.separation()
	d.shift()
	return true
}

// regression compares the models on the regression set.
func (d *decision) regression() {
	switch set := d.in.Regression; {
	case set.size() == 0:
	case set.enough(d.cfg.minOther()):
		d.report.Regression = d.compare(regressionSet, set, d.in.Current, "current model", d.cfg.RegressionMargin)
	case d.several:
		d.note("%s.", d.tooFew(regressionSet, set, d.cfg.minOther()))
	default:
		d.reject("%s; add bags to it, or remove it.", d.tooFew(regressionSet, set, d.cfg.minOther()))
	}
}

func (d *decision) reject(format string, args ...any) {
	d.report.Reasons = append(d.report.Reasons, fmt.Sprintf(format, args...))
}

func (d *decision) note(format string, args ...any) {
	d.report.Notes = append(d.report.Notes, fmt.Sprintf(format, args...))
}

// threshold rejects a saturated threshold, which decides all responses alike. It may be
// far from 0.5: that of a model which separates well is where its compliant bags are. An
// aspect that is not judged, and thus hardly trained, may keep the current one.
func (d *decision) threshold() {
	t := d.in.Candidate.threshold(rewardmodel.AggregateMax)
	if d.several && !d.judged && t == d.in.Current.threshold(rewardmodel.AggregateMax) {
		return
	}
	if t <= saturated || t >= 1-saturated {
		d.reject("The candidate's threshold is %.4g, at the end of its range: it would decide nearly all responses alike.", t)
	}
}

// sets returns the three sets with their names.
func (in Input) sets() []namedBags {
	return []namedBags{{holdoutSet, in.Holdout}, {regressionSet, in.Regression}, {probeSet, in.Probe}}
}

// anchored is an anchor and the set that it belongs to.
type anchored struct {
	*Reference
	name string
	set  Bags
}

// anchors returns the anchors that are set.
func (in Input) anchors() (out []anchored) {
	for _, a := range []anchored{{in.HoldoutAnchor, holdoutSet, in.Holdout}, {in.RegressionAnchor, regressionSet, in.Regression}} {
		if a.Reference != nil {
			out = append(out, a)
		}
	}
	return out
}

// Names of the sets in reasons.
const (
	holdoutSet    = "hold-out"
	regressionSet = "regression set"
	probeSet      = "probe set"
)

type namedBags struct {
	name string
	Bags
}

// finite rejects scores that are not finite.
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

// spread rejects scores that do not separate responses.
func (d *decision) spread() {
	for _, set := range d.in.sets() {
		margins := set.Candidate[rewardmodel.AggregateMax]
		if len(margins) < 2 {
			continue
		}
		if d.several && !d.judged && constant(set.Current[rewardmodel.AggregateMax]) {
			continue // as before
		}
		least, largest := bounds(margins)
		if constant(margins) {
			d.reject("The candidate's scores are constant on the %s: the margins of %d bags lie within %.2g.", set.name, len(margins), largest-least)
		}
	}
	set, t := d.in.Holdout, logistic.Logit(d.in.Candidate.threshold(rewardmodel.AggregateMax))
	violations := count(set.Violation)
	if violations == 0 || violations == len(set.Violation) || d.several && !d.judged {
		return
	}
	switch least, largest := bounds(set.Candidate[rewardmodel.AggregateMax]); {
	case largest <= t:
		d.reject("The candidate calls all %d bags of the hold-out compliant, of which %d are violations.", set.size(), violations)
	case least > t:
		d.reject("The candidate calls all %d bags of the hold-out violations, of which %d are.", set.size(), violations)
	}
}

// separation rejects rewards, after calibration, that hardly tell violations from other responses, or that are nearly all
// 0 or 1: a policy learns nothing from either, however well the scores rank.
func (d *decision) separation() {
	set := d.in.Holdout
	margins := set.Candidate[rewardmodel.AggregateMax]
	if !d.judged || constant(margins) {
		return
	}
	extreme := 0
	rewards := logOdds(margins, d.in.Candidate.threshold(rewardmodel.AggregateMax), d.report.Calibration[rewardmodel.AggregateMax])
	for _, x := range rewards {
		if logistic.Sigmoid(-math.Abs(x)) < saturated {
			extreme++
		}
	}
	compliant, violating := MeanRewards(rewards, set.Violation)
	if math.Abs(compliant-violating) < MinSeparation {
		d.reject("The candidate's rewards hardly tell responses apart: on the hold-out they are %.3f on average for compliant bags and %.3f for violations.",
			compliant, violating)
	}
	if share := float64(extreme) / float64(set.size()); share > maxSaturated {
		d.reject("The candidate's rewards are saturated: %.0f%% of them on the hold-out are 0 or 1 to six digits; calibrate it, or train it for fewer epochs.", 100*share)
	}
}

// MeanRewards returns the mean compliance of compliant bags and that of violations; NaN without any.
func MeanRewards(logOdds []float64, violation []bool) (compliant, violating float64) {
	violations := 0.0
	for i, x := range logOdds {
		if violation[i] {
			violating += logistic.Sigmoid(x)
			violations++
		} else {
			compliant += logistic.Sigmoid(x)
		}
	}
	return compliant / (float64(len(logOdds)) - violations), violating / violations
}

// constant reports whether margins do not separate responses.
func constant(margins []float64) bool {
	least, largest := bounds(margins)
	return largest-least < minSpread
}

// enough reports whether a set has that many bags of each label.
func (b Bags) enough(least int) bool {
	violations := count(b.Violation)
	return min(violations, len(b.Violation)-violations) >= least
}

// tooFew says that a set is too small to compare models on.
func (d *decision) tooFew(name string, set Bags, least int) string {
	violations := count(set.Violation)
	return fmt.Sprintf("The %s has %d violations and %d compliant bags, but %d of each are needed to compare the models",
		name, violations, len(set.Violation)-violations, least)
}

// compare tests for non-inferiority to a model on a set. Set has the scores of
// that model as the current one's.
func (d *decision) compare(name string, set Bags, against Model, who string, margin float64) *Comparison {
	c := comparison(d.cfg, set, margin, against.threshold(rewardmodel.AggregateMax), d.in.Candidate.threshold(rewardmodel.AggregateMax))
	c.Against = against.Version
	if !c.Passed {
		d.reject("On the %s (%d bags, %d violations) the candidate's %s is %.3f and the %s's %.3f; "+
			"at confidence %g it may be worse by %.3f, more than the margin of %g.",
			name, c.Bags, c.Violations, c.Metric, c.Candidate, who, c.Current, d.cfg.Confidence, -c.Interval[0], margin)
	}
	return &c
}

// anchors tests for non-inferiority to the anchors, on sets that are large
// enough, and records whether the candidate replaces that of the hold-out.
func (d *decision) anchors() {
	best := d.report.Holdout
	for _, a := range d.in.anchors() {
		set := Bags{Violation: a.set.Violation, Current: a.Margins, Candidate: a.set.Candidate}
		switch {
		case a.name == holdoutSet && d.report.Holdout != nil:
			d.report.HoldoutAnchor = d.compare(a.name, set, a.Model, "best version "+a.Version, d.cfg.Margin)
			best = d.report.HoldoutAnchor
		case a.name == regressionSet && d.report.Regression != nil:
			d.report.RegressionAnchor = d.compare(a.name, set, a.Model, "original model "+a.Version, d.cfg.RegressionMargin)
		}
	}
	d.report.Better = best.better()
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

// shift measures how the rewards move, and rejects a jump, also one that cannot
// be excluded because the probe set is too small.
func (d *decision) shift() {
	probe := d.in.Probe
	d.report.Chance = d.report.Holdout != nil && chance(d.cfg, d.in.Holdout, d.in.Holdout.Current[rewardmodel.AggregateMax])
	free := d.in.Current.Untrained || d.report.Chance || d.cfg.AllowShift
	if n := probe.size(); n < d.cfg.minOther() && !free {
		d.reject("The probe set has %d responses, but %d are needed to see how far the rewards would move; give more, or allow any shift.", n, d.cfg.minOther())
	}
	if probe.size() == 0 {
		return
	}
	s := measureShift(d.in, d.report.Calibration)
	if d.several && !d.judged {
		s.BalancedChange = balancedChange(d.in, d.report.Calibration)
	}
	d.limit(s)
}

// limit reports a shift, and rejects one above the limit.
func (d *decision) limit(s Shift) {
	last, when := s.moved().MeanChange, "without calibration"
	if s.After != nil {
		when = "after calibration"
	}
	if b := s.BalancedChange; b != nil && *b > last {
		last, when = *b, when+" (violations and others half each)"
	}
	s.Limit = d.cfg.MaxShift
	s.Exceeded = last > s.Limit
	d.report.Shift = &s
	switch {
	case d.in.Current.Untrained:
		d.note("The current model is untrained: the candidate's rewards have nothing to stay comparable to.")
	case s.Exceeded && d.report.Chance:
		d.note("The compliance rewards of the probe set move by %.3f on average %s, more than %g; but the current model "+
			"ranks the hold-out hardly better than chance, so that there is nothing to stay comparable to.", last, when, s.Limit)
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
