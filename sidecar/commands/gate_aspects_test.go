package commands_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/checkpoint"
	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

// twoAspects writes a tiny model with two aspects; thresholds in the middle of their scores.
func twoAspects(t *testing.T, names ...string) string {
	t.Helper()
	return processtest.TinyModel(t, func(cfg *checkpoint.Config, m *checkpoint.Manifest) {
		cfg.NumLabels, cfg.Labels = 2*len(names), checkpoint.AspectLabels(names)
		m.Threshold, m.Thresholds = 0.5, nil
		for _, name := range names {
			m.Aspects = append(m.Aspects, checkpoint.Aspect{Name: name, Weight: 1, Threshold: 0.5})
		}
	})
}

// aspectBags writes the bags of a file with labels of aspects instead of that of the whole response.
func aspectBags(t *testing.T, n int, aspects ...string) string {
	t.Helper()
	file, err := os.Open(processtest.BagFile(t, n))
	require.NoError(t, err)
	defer file.Close()
	out, err := os.Create(filepath.Join(t.TempDir(), "aspects.jsonl"))
	require.NoError(t, err)
	defer out.Close()
	for b, err := range bag.Read(file) {
		require.NoError(t, err)
		b.Labels = map[string]bag.Label{}
		for _, name := range aspects {
			b.Labels[name] = b.Label
		}
		b.Label = ""
		require.NoError(t, bag.Write(out, func(yield func(bag.Bag) bool) { yield(b) }))
	}
	return out.Name()
}

// Each aspect is judged on its labels, and gets a calibration of its own.
func TestGateOfSeveralAspects(t *testing.T) {
	names := []string{"toxicity", "refusal"}
	current, candidate := twoAspects(t, names...), twoAspects(t, names...)
	bags := aspectBags(t, 80, "toxicity")
	report, code := gateReport(t, "--current", current, "--candidate", candidate, "--holdout", bags, "--write")
	require.Equal(t, cli.ExitDone, code, report.Reasons)
	require.True(t, report.Aspects["toxicity"].Judged)
	require.Equal(t, 80, report.Aspects["toxicity"].Holdout.Bags)
	require.False(t, report.Aspects["refusal"].Judged)
	require.Contains(t, strings.Join(report.Aspects["refusal"].Notes, " "), "0 violations and 0 compliant bags")
	require.Equal(t, 80, report.Aspects["refusal"].Shift.Bags)
	require.Nil(t, report.Holdout, "no bag has a label of the whole response")
	require.Equal(t, 80, report.Shift.Bags, "of the combined reward")

	man := processtest.Manifest(t, candidate)
	for i, name := range names {
		require.Len(t, man.Aspects[i].Calibration, len(report.Aspects[name].Calibration))
	}
	require.Contains(t, man.Metrics, "holdout.toxicity.bag_auroc")
	require.NotContains(t, man.Metrics, "holdout.bag_auroc")

	report, code = gateReport(t, "--current", current, "--candidate", candidate, "--holdout", processtest.BagFile(t, 80))
	require.Equal(t, cli.ExitFailed, code, "a violation of the whole response does not say which aspect it is of")
	require.Contains(t, report.Reasons[0], "No aspect can be judged: refusal has 0 violations and 40 compliant bags")
	require.Equal(t, 80, report.Holdout.Bags)

	report, code = gateReport(t, "--current", current, "--candidate", twoAspects(t, "toxicity", "insults"), "--holdout", bags)
	require.Equal(t, cli.ExitFailed, code)
	require.Len(t, report.Reasons, 1)
	require.Contains(t, report.Reasons[0], "other aspects (toxicity, insults) than the current model (toxicity, refusal)")
}

// An anchor has nothing to say about an aspect that it does not have, also if it has a single one.
func TestGateAnchorWithOtherAspects(t *testing.T) {
	current, candidate := twoAspects(t, "toxicity", "refusal"), twoAspects(t, "toxicity", "refusal")
	for _, c := range []struct {
		anchor   string
		compared []string
	}{
		{processtest.TinyModel(t, nil), nil},
		{twoAspects(t, "refusal"), []string{"refusal"}},
		{twoAspects(t, "refusal", "toxicity"), []string{"refusal", "toxicity"}},
	} {
		report, _ := gateReport(t, "--current", current, "--candidate", candidate, "--anchor", c.anchor,
			"--holdout", aspectBags(t, 80, "toxicity", "refusal"))
		require.Len(t, report.Aspects, 2)
		for name, a := range report.Aspects {
			require.Equal(t, slices.Contains(c.compared, name), a.HoldoutAnchor != nil, "%s: %v", name, c.compared)
		}
	}
}
