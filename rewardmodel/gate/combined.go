package gate

import (
	"fmt"
	"math"

	"assay/rewardmodel"
)

// validateAspects checks that the input has every aspect of the models, on one probe set.
func (in Input) validateAspects() error {
	for _, m := range []Model{in.Current, in.Candidate} {
		if m.Weights != nil && len(m.Weights) != len(m.Aspects) {
			return fmt.Errorf("%w: model %s has %d aspects and %d weights", ErrInput, m.Version, len(m.Aspects), len(m.Weights))
		}
		for _, name := range m.Aspects {
			a, ok := in.Aspects[name]
			if !ok {
				return fmt.Errorf("%w: model %s has the aspect %s, and the input does not", ErrInput, m.Version, name)
			}
			if first := in.Aspects[m.Aspects[0]]; a.Probe.size() != first.Probe.size() {
				return fmt.Errorf("%w: the probe set has %d bags for the aspect %s, and %d for %s",
					ErrInput, a.Probe.size(), name, first.Probe.size(), m.Aspects[0])
			}
		}
	}
	return nil
}

// combined limits the shift of the reward that combines all aspects.
func (d *decision) combined() {
	in := d.in
	if len(in.Current.Aspects) == 0 || in.Aspects[in.Current.Aspects[0]].Probe.size() == 0 {
		return // the shift of each aspect says so
	}
	const a = rewardmodel.AggregateMax
	was, before := in.Current.combine(func(name string) []float64 {
		of := in.Aspects[name]
		return logOdds(of.Probe.Current[a], of.Current.threshold(a), of.Current.Calibration[a])
	})
	candidate := func(calibrations func(name string) rewardmodel.Calibration) (rewards, least []float64) {
		return in.Candidate.combine(func(name string) []float64 {
			of := in.Aspects[name]
			return logOdds(of.Probe.Candidate[a], of.Candidate.threshold(a), calibrations(name)[a])
		})
	}
	is, after := candidate(func(string) rewardmodel.Calibration { return nil })
	mapped, _ := candidate(func(name string) rewardmodel.Calibration { return d.report.Aspects[name].Calibration })
	for i, name := range in.Current.Aspects {
		d.report.Chance = d.report.Chance || in.Current.weight(i) > 0 && d.report.Aspects[name].Chance
	}
	d.limit(newShift(was, is, mapped, flips(before, after)))
}

// combine returns the combined compliance of responses, and the least log-odds of an
// aspect that counts, whose sign is that of the decision. of returns the compliance
// log-odds of an aspect.
func (m Model) combine(of func(aspect string) []float64) (rewards, least []float64) {
	all, weights := make([][]float64, len(m.Aspects)), make([]float64, len(m.Aspects))
	for i, name := range m.Aspects {
		all[i], weights[i] = of(name), m.weight(i)
	}
	for i := range all[0] {
		x, smallest := make([]float64, len(all)), math.Inf(1)
		for k := range all {
			if x[k] = all[k][i]; weights[k] > 0 {
				smallest = min(smallest, x[k])
			}
		}
		rewards, least = append(rewards, m.Combination.Compliance(weights, x)), append(least, smallest)
	}
	return rewards, least
}

func (m Model) weight(i int) float64 {
	if m.Weights == nil {
		return 1
	}
	return m.Weights[i]
}
