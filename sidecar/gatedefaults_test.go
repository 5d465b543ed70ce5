package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/gate"
	"assay/rewardmodel/retrain"
	"assay/sidecar/cli"
)

// parsed is the command line without flags that a test does not give.
func parsed(t *testing.T, args ...string) *commandLine {
	t.Helper()
	var c commandLine
	parser, err := assayProgram().Parser(&c, io.Discard, io.Discard)
	require.NoError(t, err)
	_, err = parser.Parse(args)
	require.NoError(t, err)
	return &c
}

// The gate of the service, of the trainer and of "assay gate" have one set of
// defaults, that of the library.
func TestGateDefaultsAreOne(t *testing.T) {
	want := gate.DefaultConfig()
	require.Equal(t, want, parsed(t, "gate", "--current", "a", "--candidate", "b", "--holdout", "c").Gate.config())

	for name, flags := range map[string]retrainFlags{
		"serve":   parsed(t, "serve").Serve.retrainFlags,
		"trainer": parsed(t, "trainer", "--nats-url", "nats://127.0.0.1:4222").Trainer.retrainFlags,
	} {
		t.Run(name, func(t *testing.T) {
			got := want
			got.Metric, got.Margin, got.RegressionMargin = gate.Metric(flags.GateMetric), flags.GateMargin, flags.GateRegression
			got.Confidence, got.MaxShift, got.AllowShift = flags.GateConfidence, flags.GateMaxShift, flags.GateAllowShift
			got.MinBags = flags.HoldoutMin
			require.Equal(t, want, got)
			require.Equal(t, retrain.DefaultPolicy(), flags.policy())
		})
	}
}

// The anchors of the command line judge, too, and name what the candidate is
// compared with.
func TestGateHasAnchors(t *testing.T) {
	bags, current, candidate, anchor := bagFile(t, 60), tinyModel(t, nil), tinyModel(t, nil), tinyModel(t, nil)
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
	model := tinyModel(t, nil)
	report, code := gateReport(t, "--current", model, "--candidate", model, "--holdout", bagFile(t, 38))
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, report.Summary(), "The hold-out has 19 violations and 19 compliant bags, but 20 of each are needed")
	require.Nil(t, report.Holdout)
}
