package consoletest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/queue/queuetest"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/gate"
	"assay/rewardmodel/retrain"
	"assay/sidecar/processtest"
)

// Versions in the registry of serveTwoVersions, in addition to the shipped one.
const (
	strictVersion   = "strict-2026.2"   // the shipped weights with a low threshold
	rejectedVersion = "rejected-2026.3" // a record without files
)

// serveTwoVersions starts a service whose registry has three versions.
func serveTwoVersions(t *testing.T, flags ...string) *processtest.Process {
	t.Helper()
	chromium(t)
	p := processtest.Serve(t, shippedModel, t.TempDir(), append([]string{"--train-auto=false"}, flags...)...)
	q := queuetest.Open(t, queue.Config{Conn: queue.ConnConfig{URL: p.Ready.NATS}})
	registry, err := q.OpenRegistry(t.Context())
	require.NoError(t, err)

	strict := strictModel(t)
	c, err := checkpoint.Open(strict)
	require.NoError(t, err)
	defer c.Close()
	record := retrain.Model{
		Version: strictVersion, State: retrain.StatePromoted, Created: c.Manifest.Created, Method: c.Manifest.Method,
		Threshold: c.Manifest.Threshold, Labels: c.Config.Labels, By: "gate", Reason: "it is not worse than the current version",
		Parent: p.Ready.Model, Data: &retrain.Data{Training: "run1", Trigger: retrain.TriggerBags, Reason: "60 new labels", Bags: 120, Violations: 55, New: 60, HeldOut: 60, Raters: 3, Seconds: 312},
	}
	record.Gate = report(t, p.Ready.Model, strictVersion, true)
	record.Files, err = registry.Upload(t.Context(), strictVersion, strict)
	require.NoError(t, err)
	require.NoError(t, registry.Register(t.Context(), record))
	require.NoError(t, registry.Register(t.Context(), retrain.Model{
		Version: rejectedVersion, State: retrain.StateRejected, Created: time.Now(), Method: "bfgpu", Threshold: 0.7, Labels: c.Config.Labels,
		By: "gate", Reason: "on the hold-out, the AUROC may be lower than that of the current version by 0.05", Parent: p.Ready.Model,
		Gate: report(t, p.Ready.Model, rejectedVersion, false),
	}))
	return p
}

// strictModel returns a copy of the shipped model with a low threshold.
func strictModel(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(shippedModel)))
	name := filepath.Join(dir, "assay.json")
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	var manifest map[string]any
	require.NoError(t, json.Unmarshal(content, &manifest))
	manifest["version"] = strictVersion
	manifest["threshold"] = 0.05
	delete(manifest, "thresholds")
	delete(manifest, "length_slope")
	content, err = json.Marshal(manifest)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, content, 0o600))
	return dir
}

// report returns a report of the gate in the form of its package.
func report(t *testing.T, current, candidate string, promote bool) jsontext.Value {
	t.Helper()
	r := gate.Report{
		Promote: promote, Reasons: []string{}, Notes: []string{}, Current: current, Candidate: candidate, Settings: gate.DefaultConfig(),
		Holdout: &gate.Comparison{
			Against: current, Bags: 60, Violations: 28, Metric: gate.BagAUROC, Current: 0.91, Candidate: 0.93, Difference: 0.02,
			Interval: [2]float64{-0.01, 0.05}, Coverage: 0.8, Margin: 0.02, Passed: promote,
			Metrics: map[gate.Metric]gate.Pair{gate.BagAUROC: {Current: 0.91, Candidate: 0.93}, gate.AvgAcc: {Current: 0.85, Candidate: 0.86}},
		},
		Shift: &gate.Shift{Bags: 120, Flips: 7, FlipRate: 7. / 120, Before: gate.Distance{MeanChange: 0.08}, Limit: 0.3},
	}
	if !promote {
		r.Holdout.Candidate, r.Holdout.Difference, r.Holdout.Interval = 0.88, -0.03, [2]float64{-0.05, -0.01}
		r.Holdout.Metrics = map[gate.Metric]gate.Pair{gate.BagAUROC: {Current: 0.91, Candidate: 0.88}, gate.AvgAcc: {Current: 0.85, Candidate: 0.81}}
		r.Reasons = []string{"on the hold-out, the AUROC may be lower than that of the current version by 0.05, more than the margin of 0.02"}
	}
	content, err := json.Marshal(r)
	require.NoError(t, err)
	return content
}
