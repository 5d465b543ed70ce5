package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/feedback"
)

// The counts of an aspect do not tell the side of its labels either.
func TestCountsOfAspectsHideTheSplit(t *testing.T) {
	st := feedback.Stats{Bags: 12, Violations: 6, HeldOut: 3, HeldOutViolations: 1, OverShare: 5, OverShareViolations: 2, Aspects: map[string]feedback.AspectStats{
		"refusal": {Bags: 7, Violations: 4, HeldOut: 2, HeldOutViolations: 1, OverShare: 4, OverShareViolations: 3, Disputed: 1, New: feedback.NewCounts{Bags: 5, Violations: 2}},
	}}
	want := map[string]feedback.AspectStats{"refusal": {Bags: 13, Violations: 8, Disputed: 1}}
	require.Equal(t, feedback.Stats{Bags: 20, Violations: 9, Aspects: want}, withoutSplit(st))
	require.Equal(t, 2, st.Aspects["refusal"].HeldOut, "the original is unchanged")
}
