package gate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// SameAspects reports whether models can be compared: they have the same aspects in
// any order, or one each.
func SameAspects(a, b []string) bool {
	if len(a) <= 1 && len(b) <= 1 {
		return true
	}
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func aspectNames(names []string) string {
	if len(names) <= 1 {
		return "one"
	}
	return strings.Join(names, ", ")
}

// aspects decides about each aspect, and about the verdict on the whole response.
func (d *decision) aspects() error {
	if err := d.in.validateAspects(); err != nil {
		return err
	}
	d.report.Aspects = map[string]AspectReport{}
	finite, judged, better := true, 0, false
	for _, name := range slices.Sorted(maps.Keys(d.in.Aspects)) {
		in := d.in.Aspects[name]
		if err := in.validate(); err != nil {
			return fmt.Errorf("aspect %s: %w", name, err)
		}
		in.Current.Untrained = d.in.Current.Untrained
		a := &decision{cfg: d.cfg, in: in, several: true, report: Report{Reasons: []string{}, Notes: []string{}}}
		finite = a.decide() && finite
		r := a.report
		for _, reason := range r.Reasons {
			d.reject("%s: %s", name, reason)
		}
		if a.judged {
			judged++
		}
		better = better || r.Better
		d.report.Aspects[name] = AspectReport{
			Judged: a.judged, Reasons: r.Reasons, Notes: r.Notes, Chance: r.Chance, Better: r.Better,
			Holdout: r.Holdout, Regression: r.Regression, HoldoutAnchor: r.HoldoutAnchor, RegressionAnchor: r.RegressionAnchor,
			Shift: r.Shift, Calibration: r.Calibration,
		}
	}
	if judged == 0 {
		d.reject("No aspect can be judged: %s. At least one needs %d violations and %d compliant bags in the hold-out; wait for more feedback.",
			d.missing(), d.cfg.MinBags, d.cfg.MinBags)
	}
	if finite {
		d.whole()
	}
	d.report.Better = better && d.noneLower()
	return nil
}

// missing lists the labels of each aspect in the hold-out.
func (d *decision) missing() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(d.in.Aspects)) {
		labels := d.in.Aspects[name].Holdout.Violation
		out = append(out, fmt.Sprintf("%s has %d violations and %d compliant bags", name, count(labels), len(labels)-count(labels)))
	}
	return strings.Join(out, ", ")
}

// whole compares the verdicts on the whole response, where enough bags have a label
// of it, and limits the shift of its reward.
func (d *decision) whole() {
	before := len(d.report.Reasons)
	if d.in.Holdout.enough(d.cfg.MinBags) {
		d.report.Holdout = d.compare(holdoutSet, d.in.Holdout, d.in.Current, "current model", d.cfg.Margin)
	}
	if d.in.Regression.enough(d.cfg.minOther()) {
		d.report.Regression = d.compare(regressionSet, d.in.Regression, d.in.Current, "current model", d.cfg.RegressionMargin)
	}
	d.anchors()
	d.combined()
	for i := range d.report.Reasons[before:] {
		d.report.Reasons[before+i] = "Whole response: " + d.report.Reasons[before+i]
	}
}

// noneLower reports whether no comparison on the hold-out measures a loss. The best
// version stays the anchor otherwise: in turn, each gain of one aspect could hide a
// loss of another within its margin.
func (d *decision) noneLower() bool {
	compared := []*Comparison{d.report.Holdout, d.report.HoldoutAnchor}
	for _, a := range d.report.Aspects {
		compared = append(compared, a.Holdout, a.HoldoutAnchor)
	}
	return !slices.ContainsFunc(compared, func(c *Comparison) bool { return c != nil && c.Difference < 0 })
}

// better reports that the candidate is shown to be better.
func (c *Comparison) better() bool { return c != nil && c.Interval[0] > 0 }
