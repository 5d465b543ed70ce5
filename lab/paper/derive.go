package paper

import "maps"

// derive makes the record of a run from that of a run that differs only in how T is placed: T does not change the
// weights, and AtThreshold has the decisions of each way. It omits metrics of decisions that AtThreshold does not have.
// ok is false when there is no such record.
func (s *Store) derive(spec Spec) (r Record, ok bool) {
	kind := spec.Settings["threshold"]
	for _, sibling := range s.Records() {
		at, found := sibling.AtThreshold[kind]
		if !found || sibling.WeightsOf != "" || withoutThreshold(sibling.Spec) != withoutThreshold(spec) {
			continue
		}
		r = sibling
		r.Threshold, r.Metrics = at.Threshold, maps.Clone(sibling.Metrics)
		r.Metrics[avgAcc], r.Metrics[f1Violation] = at.AvgAcc, at.F1Violation
		for _, name := range []string{"f1_compliant", "recall_violation", "recall_compliant"} {
			delete(r.Metrics, name)
		}
		r.WeightsOf, r.WallSeconds = sibling.Key, 0
		return r, true
	}
	return Record{}, false
}

// withoutThreshold is the key of a run without the way to place T.
func withoutThreshold(s Spec) string {
	s.Settings = maps.Clone(s.Settings)
	delete(s.Settings, "threshold")
	return s.Key()
}
