package commands

import (
	"context"
	"fmt"
	"slices"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/gate"
)

// input scores the sets with all models.
func (s gateScorer) input(ctx context.Context, models gateModels) (in gate.Input, err error) {
	current, err := s.score(ctx, models.current, models.allowUntrained)
	if err != nil {
		return in, fmt.Errorf("--current: %w", err)
	}
	candidate, err := s.candidate(ctx, models.candidate)
	if err != nil {
		return in, fmt.Errorf("--candidate: %w", err)
	}
	anchor, err := s.reference(ctx, "--anchor", models.anchor, s.sets.holdout)
	if err != nil {
		return in, err
	}
	original, err := s.reference(ctx, "--regression-anchor", models.regressionAnchor, s.sets.regression)
	if err != nil {
		return in, err
	}
	if len(current.aspects) == 1 && len(candidate.aspects) == 1 {
		return s.aspect(0, current, candidate, anchor, original), nil
	}
	in.Current, in.Candidate = current.combined(), candidate.combined()
	in.Aspects = map[string]gate.Input{}
	for i, a := range current.aspects {
		if slices.Contains(in.Candidate.Aspects, a.Name) {
			in.Aspects[a.Name] = s.aspect(i, current, candidate, anchor, original)
		}
	}
	verdict := func(l feedback.Labels) bag.Label { return l.Whole }
	in.Holdout, in.HoldoutAnchor = s.sets.holdout.whole(verdict, 0, current, candidate, anchor)
	in.Regression, in.RegressionAnchor = s.sets.regression.whole(verdict, 1, current, candidate, original)
	return in, nil
}

// aspect is the input about one aspect of the current model. Models with one aspect each are compared whatever its name.
func (s gateScorer) aspect(i int, current, candidate scoredSets, anchor, original *scoredSets) gate.Input {
	name := current.aspects[i].Name
	label := func(l feedback.Labels) bag.Label { return l.For(name, len(current.aspects)) }
	j := candidate.index(current, i)
	in := gate.Input{Current: current.model(i), Candidate: candidate.model(j)}
	in.Holdout, in.HoldoutAnchor = s.sets.holdout.compared(label, i, 0, current, candidate, anchor)
	in.Regression, in.RegressionAnchor = s.sets.regression.compared(label, i, 1, current, candidate, original)
	in.Probe = gate.Bags{Current: current.margins[2].aspects[i], Candidate: candidate.margins[2].aspects[j]}
	return in
}

// compared returns the margins of the bags with a label of aspect i of the current model, and those of the anchor if it
// has the aspect. n is the index of the set.
func (s gateSet) compared(label func(feedback.Labels) bag.Label, i, n int, current, candidate scoredSets, anchor *scoredSets) (gate.Bags, *gate.Reference) {
	violation, at := s.labeled(label)
	out := gate.Bags{Violation: violation, Current: pick(current.margins[n].aspects[i], at),
		Candidate: pick(candidate.margins[n].aspects[candidate.index(current, i)], at)}
	if anchor == nil || anchor.index(current, i) < 0 {
		return out, nil
	}
	j := anchor.index(current, i)
	return out, &gate.Reference{Model: anchor.model(j), Margins: pick(anchor.margins[0].aspects[j], at)}
}

// whole is compared for the verdict on the whole response. An anchor with other aspects has another verdict.
func (s gateSet) whole(label func(feedback.Labels) bag.Label, n int, current, candidate scoredSets, anchor *scoredSets) (gate.Bags, *gate.Reference) {
	violation, at := s.labeled(label)
	out := gate.Bags{Violation: violation, Current: pick(current.margins[n].whole, at), Candidate: pick(candidate.margins[n].whole, at)}
	if anchor == nil || !slices.Equal(slices.Sorted(slices.Values(anchor.names())), slices.Sorted(slices.Values(current.names()))) {
		return out, nil
	}
	return out, &gate.Reference{Model: gate.Model{Version: anchor.version}, Margins: pick(anchor.margins[0].whole, at)}
}

// labeled returns the labels of the bags that have one, and the indices of these bags.
func (s gateSet) labeled(label func(feedback.Labels) bag.Label) (violation []bool, at []int) {
	for i, labels := range s.labels {
		if l := label(labels); l != "" {
			violation, at = append(violation, l == bag.Violation), append(at, i)
		}
	}
	return violation, at
}

// pick returns the margins of some bags.
func pick(margins gate.Margins, at []int) gate.Margins {
	out := gate.Margins{}
	for aggregate, all := range margins {
		for _, i := range at {
			out[aggregate] = append(out[aggregate], all[i])
		}
	}
	return out
}

func (s scoredSets) names() []string {
	names := make([]string, len(s.aspects))
	for i, a := range s.aspects {
		names[i] = a.Name
	}
	return names
}

// index is that of aspect i of the current model; -1: there is none. If both have a single aspect, it is the same.
func (s scoredSets) index(current scoredSets, i int) int {
	if len(s.aspects) == 1 && len(current.aspects) == 1 {
		return 0
	}
	return slices.Index(s.names(), current.aspects[i].Name)
}

// combined describes the verdict on the whole response.
func (s scoredSets) combined() gate.Model {
	m := gate.Model{Version: s.version, Untrained: s.untrained, Aspects: s.names(), Combination: s.combination}
	for _, a := range s.aspects {
		m.Weights = append(m.Weights, a.Weight)
	}
	return m
}

// model describes an aspect.
func (s scoredSets) model(i int) gate.Model {
	return gate.Model{Version: s.version, Untrained: s.untrained, Thresholds: s.aspects[i].Thresholds, Calibration: s.aspects[i].Calibration}
}
