package api

import (
	"net/http"

	"assay/rewardmodel/feedback"
)

// waitHidden takes the place of what training waits for, which counts held-out
// responses.
const waitHidden = "waiting for labels or the cooldown; a token with the scope admin shows the counts"

// seesSplit reports whether a caller may see how many labels are held out.
// Callers that only send labels may not: the count after each of their labels
// would show its side, which the salt of the hold-out keeps secret.
func (s *Server) seesSplit(r *http.Request) bool {
	_, err := s.authorize(callerOf(r), ScopeAdmin)
	return err == nil
}

// withoutSplit counts responses regardless of their side.
func withoutSplit(st feedback.Stats) feedback.Stats {
	st.Bags, st.Violations = st.Bags+st.HeldOut, st.Violations+st.HeldOutViolations
	st.HeldOut, st.HeldOutViolations = 0, 0
	st.New.Bags, st.New.Violations = 0, 0
	return st
}

// visibleStats is what a caller may see of the counts.
func (s *Server) visibleStats(r *http.Request, st feedback.Stats) feedback.Stats {
	if s.seesSplit(r) {
		return st
	}
	return withoutSplit(st)
}

// visibleTraining is what a caller may see of the training.
func (s *Server) visibleTraining(r *http.Request, t Training) Training {
	if s.seesSplit(r) {
		return t
	}
	t.Feedback = withoutSplit(t.Feedback)
	if t.Wait != "" {
		t.Wait = waitHidden
	}
	return t
}
