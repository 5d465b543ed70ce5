package commands_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/rewardmodel/calibration"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/gate"
	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

// gateReport runs the gate and returns its report and exit code.
func gateReport(t *testing.T, args ...string) (gate.Report, int) {
	t.Helper()
	stdout, stderr, code := assay(t, "", append([]string{"gate", "--threads", "1", "--precision", "fp32"}, args...)...)
	var report gate.Report
	require.NoError(t, json.Unmarshal([]byte(stdout), &report), stderr)
	return report, code
}

// A model is not worse than itself; its rewards must stay comparable with its own calibration.
func TestGatePromotesAndCalibrates(t *testing.T) {
	bags := processtest.BagFile(t, 80)
	threshold := medianViolation(t, processtest.TinyModel(t, nil), bags)
	settle := func(_ *checkpoint.Config, m *checkpoint.Manifest) { m.Threshold, m.Thresholds = threshold, nil }
	spread := calibration.Map{From: []float64{-0.05, 0, 0.05}, To: []float64{-0.2, 0, 0.2}}
	current := processtest.TinyModel(t, func(cfg *checkpoint.Config, m *checkpoint.Manifest) {
		settle(cfg, m)
		m.Calibration = map[string]calibration.Map{"max": spread}
	})
	candidate := processtest.TinyModel(t, settle)
	out := filepath.Join(t.TempDir(), "report.json")
	args := []string{"--current", current, "--candidate", candidate, "--holdout", bags, "--probe", bags, "--out", out}

	report, code := gateReport(t, args...)
	require.Equal(t, cli.ExitDone, code, report.Reasons)
	require.True(t, report.Promote)
	require.Equal(t, 80, report.Holdout.Bags)
	require.Equal(t, 40, report.Holdout.Violations)
	require.Zero(t, report.Holdout.Difference)
	require.Zero(t, report.Shift.Flips)
	require.Less(t, report.Shift.After.MeanChange, report.Shift.Before.MeanChange/2)
	require.Nil(t, processtest.Manifest(t, candidate).Calibration, "written without --write")
	written, err := os.ReadFile(out)
	require.NoError(t, err)
	var same gate.Report
	require.NoError(t, json.Unmarshal(written, &same))
	require.Equal(t, report, same)

	_, code = gateReport(t, append(args, "--write")...)
	require.Equal(t, cli.ExitDone, code)
	man := processtest.Manifest(t, candidate)
	require.Len(t, man.Calibration, len(report.Calibration))
	require.Equal(t, report.Calibration[rewardmodel.AggregateMax], man.Calibration["max"])
	require.Equal(t, report.Holdout.Candidate, man.Metrics["holdout.bag_auroc"])

	stdout, stderr, code := assay(t, "", "score", "--model", candidate, "--reward", "logit", "--threads", "1", "--precision", "fp32", bags)
	require.Equal(t, cli.ExitDone, code, stderr)
	plain, stderr, code := assay(t, "", "score", "--model", processtest.TinyModel(t, settle), "--reward", "logit", "--threads", "1", "--precision", "fp32", bags)
	require.Equal(t, cli.ExitDone, code, stderr)
	before := processtest.Results(t, plain)
	for i, r := range processtest.Results(t, stdout) {
		require.InDelta(t, man.Calibration["max"].At(before[i].Reward), r.Reward, 1e-6)
		require.Equal(t, before[i].Compliant, r.Compliant)
	}
}

// medianViolation is a threshold with bags on both sides.
func medianViolation(t *testing.T, model, bags string) float64 {
	t.Helper()
	stdout, stderr, code := assay(t, "", "score", "--model", model, "--threads", "1", "--precision", "fp32", bags)
	require.Equal(t, cli.ExitDone, code, stderr)
	sum, n := 0., 0.
	for _, r := range processtest.Results(t, stdout) {
		sum, n = sum+r.Violation, n+1
	}
	return sum / n
}

func TestGateRejects(t *testing.T) {
	bags := processtest.BagFile(t, 40)
	model := processtest.TinyModel(t, nil)
	atEnd := processtest.TinyModel(t, func(_ *checkpoint.Config, m *checkpoint.Manifest) { m.Threshold, m.Thresholds = 1, nil })

	report, code := gateReport(t, "--current", model, "--candidate", atEnd, "--holdout", bags, "--write")
	require.Equal(t, cli.ExitFailed, code)
	require.False(t, report.Promote)
	require.Contains(t, report.Reasons[0], "threshold is 1")
	require.Nil(t, processtest.Manifest(t, atEnd).Calibration)
	require.Empty(t, processtest.Manifest(t, atEnd).Metrics)

	_, code = gateReport(t, "--current", model, "--candidate", model, "--holdout", processtest.BagFile(t, 4))
	require.Equal(t, cli.ExitFailed, code)
}

// The regression set in the candidate's directory is used by default.
func TestGateFindsTheRegressionSet(t *testing.T) {
	bags := processtest.BagFile(t, 40)
	model := processtest.TinyModel(t, nil)
	data, err := os.ReadFile(processtest.BagFile(t, 44))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(model, "regression.jsonl"), data, 0o600))
	report, _ := gateReport(t, "--current", model, "--candidate", model, "--holdout", bags)
	require.Equal(t, 44, report.Regression.Bags)
	require.Equal(t, 40, report.Shift.Bags, "without --probe the hold-out is the probe set")
}

func TestGateErrors(t *testing.T) {
	bags, model := processtest.BagFile(t, 20), processtest.TinyModel(t, nil)
	empty := filepath.Join(t.TempDir(), "empty.jsonl")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no current":    {[]string{"--current", "nowhere", "--candidate", model, "--holdout", bags}, "--current nowhere"},
		"no candidate":  {[]string{"--current", model, "--candidate", "nowhere", "--holdout", bags}, "--candidate nowhere"},
		"no hold-out":   {[]string{"--current", model, "--candidate", model, "--holdout", "nowhere.jsonl"}, "--holdout"},
		"empty":         {[]string{"--current", model, "--candidate", model, "--holdout", empty}, "has no bags"},
		"no probe":      {[]string{"--current", model, "--candidate", model, "--holdout", bags, "--probe", "nowhere.jsonl"}, "--probe"},
		"empty probe":   {[]string{"--current", model, "--candidate", model, "--holdout", bags, "--probe", empty}, "has no responses"},
		"no regression": {[]string{"--current", model, "--candidate", model, "--holdout", bags, "--regression", "nowhere.jsonl"}, "--regression"},
		"margin":        {[]string{"--current", model, "--candidate", model, "--holdout", bags, "--margin", "2"}, "margin is 2"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := assay(t, "", append([]string{"gate"}, c.args...)...)
			require.Equal(t, cli.ExitUsage, code, stderr)
			require.Contains(t, stderr, c.says)
			require.Empty(t, stdout)
		})
	}
}

// Non-finite weights are a reason to reject, not a failure of the gate.
func TestGateRejectsNonFiniteWeights(t *testing.T) {
	bags, model, broken := processtest.BagFile(t, 20), processtest.TinyModel(t, nil), processtest.TinyModel(t, nil)
	path := filepath.Join(broken, "model.safetensors")
	data := processtest.Weights(t, broken)
	copy(data[len(data)-4:], []byte{0, 0, 0xc0, 0x7f}) // a NaN
	require.NoError(t, os.WriteFile(path, data, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(broken, "assay.json"), []byte(`{"version":"broken","threshold":0.6}`), 0o600))

	report, code := gateReport(t, "--current", model, "--candidate", broken, "--holdout", bags)
	require.Equal(t, cli.ExitFailed, code)
	require.Equal(t, "broken", report.Candidate)
	require.Len(t, report.Reasons, 1)
	require.Contains(t, report.Reasons[0], "not finite")
}

// A base model has no rewards that a candidate must stay comparable to.
func TestGateAfterAnUntrainedModel(t *testing.T) {
	bags, candidate, base := processtest.BagFile(t, 40), processtest.TinyModel(t, nil), processtest.TinyModel(t, nil)
	path := filepath.Join(base, "config.json")
	config, err := os.ReadFile(path)
	require.NoError(t, err)
	config = bytes.ReplaceAll(config, []byte("RobertaForSequenceClassification"), []byte("RobertaModel"))
	require.NoError(t, os.WriteFile(path, config, 0o600))
	require.NoError(t, os.Remove(filepath.Join(base, "assay.json")))
	stdout, stderr, code := assay(t, "", "gate", "--current", base, "--candidate", candidate, "--holdout", bags)
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "--allow-untrained")
	require.Empty(t, stdout)

	report, _ := gateReport(t, "--current", base, "--candidate", candidate, "--holdout", bags, "--allow-untrained", "--max-shift", "0")
	require.True(t, report.Untrained)
	require.Equal(t, "untrained", report.Current)
	require.Nil(t, report.Calibration)
	require.NotContains(t, report.Summary(), "probe set")
}
