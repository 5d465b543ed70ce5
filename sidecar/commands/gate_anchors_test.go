package commands_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

// The anchors on the command line count, too, and the report names what the candidate
// is compared with.
func TestGateHasAnchors(t *testing.T) {
	bags, current, candidate, anchor := processtest.BagFile(t, 60), processtest.TinyModel(t, nil), processtest.TinyModel(t, nil), processtest.TinyModel(t, nil)
	report, _ := gateReport(t, "--current", current, "--candidate", candidate, "--holdout", bags, "--regression", bags,
		"--anchor", anchor, "--regression-anchor", anchor)
	require.NotNil(t, report.HoldoutAnchor)
	require.NotNil(t, report.RegressionAnchor)
	require.Equal(t, report.Holdout.Current, report.HoldoutAnchor.Current)
	require.Equal(t, 0.05, report.RegressionAnchor.Margin)
	require.Equal(t, 0.02, report.HoldoutAnchor.Margin)

	report, _ = gateReport(t, "--current", current, "--candidate", candidate, "--holdout", bags, "--anchor", current)
	require.Nil(t, report.HoldoutAnchor, "the current model is not compared with twice")

	_, stderr, code := assay(t, "", "gate", "--current", current, "--candidate", candidate, "--holdout", bags, "--anchor", "nowhere")
	require.NotEqual(t, cli.ExitDone, code)
	require.Contains(t, stderr, "--anchor nowhere")
}

// A hold-out with fewer than 20 responses of a label rejects by default.
func TestGateNeedsTwentyOfEachLabel(t *testing.T) {
	model := processtest.TinyModel(t, nil)
	report, code := gateReport(t, "--current", model, "--candidate", model, "--holdout", processtest.BagFile(t, 38))
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, report.Summary(), "The hold-out has 19 violations and 19 compliant bags, but 20 of each are needed")
	require.Nil(t, report.Holdout)
}
