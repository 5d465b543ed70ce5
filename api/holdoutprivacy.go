package api

import "assay/rewardmodel/feedback"

// Only callers with the scope admin see how many labels are held out, and how many
// responses are omitted of senders with too large a share, which is of each side. Others
// would learn the side of each of their labels from the count after it, which the
// salt of the hold-out keeps secret.

// waitHidden replaces what training waits for, which counts held-out responses.
const waitHidden = "waiting for labels or the cooldown; a token with the scope admin shows the counts"

// withoutSplit counts responses regardless of their side.
func withoutSplit(st feedback.Stats) feedback.Stats {
	st.Bags, st.Violations = st.Bags+st.HeldOut+st.OverShare, st.Violations+st.HeldOutViolations+st.OverShareViolations
	st.HeldOut, st.HeldOutViolations, st.OverShare, st.OverShareViolations = 0, 0, 0, 0
	st.New.Bags, st.New.Violations = 0, 0
	aspects := st.Aspects
	st.Aspects = nil
	for name, a := range aspects {
		a.Bags, a.Violations = a.Bags+a.HeldOut+a.OverShare, a.Violations+a.HeldOutViolations+a.OverShareViolations
		a.HeldOut, a.HeldOutViolations, a.OverShare, a.OverShareViolations = 0, 0, 0, 0
		a.New = feedback.NewCounts{}
		if st.Aspects == nil {
			st.Aspects = map[string]feedback.AspectStats{}
		}
		st.Aspects[name] = a // a copy: the original is shared
	}
	return st
}

// trainingWithoutSplit hides the counts of held-out responses.
func trainingWithoutSplit(t Training) Training {
	t.Feedback = withoutSplit(t.Feedback)
	if t.Wait != "" {
		t.Wait = waitHidden
	}
	return t
}
