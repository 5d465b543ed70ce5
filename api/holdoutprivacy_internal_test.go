package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/feedback"
)

// The counts of an aspect do not tell the side of its labels either.
func TestCountsOfAspectsHideTheSplit(t *testing.T) {
	st := feedback.Stats{Bags: 12, HeldOut: 3, Aspects: map[string]feedback.AspectStats{
		"refusal": {Bags: 7, Violations: 4, HeldOut: 2, HeldOutViolations: 1, Disputed: 1, New: feedback.NewCounts{Bags: 5, Violations: 2}},
	}}
	want := map[string]feedback.AspectStats{"refusal": {Bags: 9, Violations: 5, Disputed: 1}}
	require.Equal(t, want, withoutSplit(st).Aspects)
	require.Equal(t, 2, st.Aspects["refusal"].HeldOut, "the original is unchanged")
}
