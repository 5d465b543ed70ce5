package paper

import (
	"maps"
	"math"
)

// derive makes the record of a run from that of a run that differs only in how T is placed: T does not change the
// weights, and AtThreshold has the decisions of each placement. ok is false when there is no such record.
func (s *Store) derive(spec Spec) (r Record, ok bool) {
	kind := spec.Settings["threshold"]
	for _, sibling := range s.Records() {
		at, found := sibling.AtThreshold[kind]
		if !found || sibling.WeightsOf != "" || withoutThreshold(sibling.Spec) != withoutThreshold(spec) {
			continue
		}
		r = sibling
		r.Threshold, r.Metrics = at.Threshold, maps.Clone(sibling.Metrics)
		for _, name := range []string{f1Compliant, recallViolation, recallCompliant} {
			delete(r.Metrics, name)
		}
		maps.Copy(r.Metrics, at.metrics(r.Counts))
		r.WeightsOf, r.WallSeconds = sibling.Key, 0
		return r, true
	}
	return Record{}, false
}

// withoutThreshold is the key of a run without the placement of T.
func withoutThreshold(s Spec) string {
	s.Settings = maps.Clone(s.Settings)
	delete(s.Settings, "threshold")
	return s.Key()
}

// metrics returns all metrics of a decision on that many test bags. AvgAcc and the F1 of one class determine both
// recalls, and with them the F1 of the other class. It omits those that the two numbers do not determine.
func (d Decision) metrics(c Counts) map[string]float64 {
	out := map[string]float64{avgAcc: d.AvgAcc, f1Violation: d.F1Violation}
	anomalous, normal := float64(c.TestViolation), float64(c.TestCompliant)
	if anomalous == 0 || normal == 0 {
		return out
	}
	const rounding = 1e-9
	found := 1.0 // recall of the anomalous class; F1 is 1 only if every decision is right
	if d.F1Violation < 1 {
		divisor := 2*anomalous - d.F1Violation*(anomalous+normal)
		if math.Abs(divisor) < rounding {
			return out // every recall has this F1
		}
		found = d.F1Violation * (normal*(1-2*d.AvgAcc) + anomalous) / divisor
	}
	kept := 2*d.AvgAcc - found // recall of the normal class
	if min(found, kept) < -rounding || max(found, kept) > 1+rounding {
		return out
	}
	found, kept = min(max(found, 0), 1), min(max(kept, 0), 1)
	out[recallViolation], out[recallCompliant] = found, kept
	out[f1Compliant] = 2 * normal * kept / (normal*(1+kept) + anomalous*(1-found))
	return out
}

// withDecision adds the metrics of the decision that an older derived record lacks.
func (r Record) withDecision() Record {
	if _, ok := r.Metrics[f1Compliant]; ok {
		return r
	}
	metrics := Decision{AvgAcc: r.Metrics[avgAcc], F1Violation: r.Metrics[f1Violation]}.metrics(r.Counts)
	maps.Copy(metrics, r.Metrics)
	r.Metrics = metrics
	return r
}
