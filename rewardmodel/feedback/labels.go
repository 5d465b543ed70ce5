package feedback

import (
	"slices"

	"assay/rewardmodel"
	"assay/rewardmodel/bag"
)

// Labels are the labels of a response, as in a bag: that of the whole response and
// those of single aspects.
type Labels struct {
	Whole bag.Label `json:"label,omitzero"` // "" if only aspects have labels
	// Aspects has the label of each aspect that was judged. It is shared: do not
	// change it.
	Aspects map[string]bag.Label `json:"labels,omitzero"`
}

// Withdrawn reports that there is no label: the rater has withdrawn it.
func (l Labels) Withdrawn() bool { return l.Whole == "" && len(l.Aspects) == 0 }

// LabelsOf returns the labels of a bag.
func LabelsOf(b bag.Bag) Labels { return Labels{Whole: b.Label, Aspects: b.Labels} }

// For returns the label of an aspect of a model with that many aspects; see
// bag.Bag.LabelFor.
func (l Labels) For(aspect string, aspects int) bag.Label {
	return bag.Bag{Label: l.Whole, Labels: l.Aspects}.LabelFor(aspect, aspects)
}

// Verdict returns the label of the whole response as far as it was judged; see
// bag.Bag.Verdict.
func (l Labels) Verdict() bag.Label {
	return bag.Bag{Label: l.Whole, Labels: l.Aspects}.Verdict()
}

// vote counts labels.
type vote struct{ violations, all int }

func (v *vote) add(l bag.Label) {
	if l == "" {
		return
	}
	v.all++
	if l == bag.Violation {
		v.violations++
	}
}

// majority is the label of more than half; "" if there is none.
func (v vote) majority() bag.Label {
	switch {
	case 2*v.violations > v.all:
		return bag.Violation
	case 2*v.violations < v.all:
		return bag.Compliant
	}
	return ""
}

func (v vote) tied() bool { return v.all > 0 && 2*v.violations == v.all }

// aspectsOr returns the aspects of a model; none: those of a model that names none.
func aspectsOr(aspects []string) []string {
	if len(aspects) == 0 {
		return []string{rewardmodel.DefaultAspect}
	}
	return aspects
}

// StoreLabels returns labels by the hash of the response: verdicts in the format of
// releases without aspects, and the labels of those responses that name aspects.
func StoreLabels(labels map[Hash]Labels) (violation map[string]bool, aspects map[string]Labels) {
	violation = make(map[string]bool, len(labels))
	for id, l := range labels {
		violation[id.String()] = l.Verdict() == bag.Violation
		if l.Aspects != nil {
			if aspects == nil {
				aspects = map[string]Labels{}
			}
			aspects[id.String()] = l
		}
	}
	return violation, aspects
}

// LoadLabels is the inverse of StoreLabels.
func LoadLabels(violation map[string]bool, aspects map[string]Labels) (map[Hash]Labels, error) {
	out := make(map[Hash]Labels, len(violation))
	for text, is := range violation {
		id, err := ParseHash(text)
		if err != nil {
			return nil, err
		}
		if l, named := aspects[text]; named {
			out[id] = l
		} else {
			out[id] = Labels{Whole: label(is, false)}
		}
	}
	return out, nil
}

// Of returns the labels that a model with the given aspects learns from, which
// has none that it does not have: of a model with one aspect, its label as that of the
// whole response. ok is false when there are none.
func (l Labels) Of(aspects []string) (out Labels, ok bool) {
	aspects = aspectsOr(aspects)
	if len(aspects) == 1 {
		out.Whole = l.For(aspects[0], 1)
		return out, out.Whole != ""
	}
	out.Whole = l.Whole
	for name, label := range l.Aspects {
		if slices.Contains(aspects, name) {
			if out.Aspects == nil {
				out.Aspects = map[string]bag.Label{}
			}
			out.Aspects[name] = label
		}
	}
	return out, out.Whole != "" || out.Aspects != nil
}
