package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/lab/report"
	"assay/rewardmodel/checkpoint"
	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

// writtenReport is what the tests read of report.json.
type writtenReport struct {
	Threshold             float64
	NoBaselines           string `json:"baselines_missing"`
	Sets, Aspects, Groups []writtenRow
	Baselines             []report.Comparison
	Precisions            []report.Precision
}

type writtenRow struct {
	Set                            string
	Partial                        bool
	Skipped, Responses, Violations int
	Metrics                        map[string]any
}

// writeReport reports on sets, by the name of the file, with a model of tiny random weights.
func writeReport(t *testing.T, model string, sets map[string]string, args ...string) (r writtenReport, dir, stderr string, code int) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "out")
	args = append([]string{"report", "--model", model, "--out", dir, "--resamples", "20"}, args...)
	for name, lines := range sets {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(lines), 0o600))
		args = append(args, path)
	}
	_, stderr, code = processtest.RunProgram(t, labProgram(), strings.NewReader(""), args...)
	if code == cli.ExitDone {
		data, err := os.ReadFile(filepath.Join(dir, "report.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &r))
	}
	return r, dir, stderr, code
}

// reportBags are bags whose labels have the given form, every other one a violation.
func reportBags(labels string) string {
	var b strings.Builder
	for i := range 20 {
		fmt.Fprintf(&b, `{"id":"b%d","category":"c%d",%s,"response":"Hello there. Secret number %d."}`+"\n",
			i, i%3, fmt.Sprintf(labels, []string{"compliant", "violation"}[i%2]), i)
	}
	return b.String()
}

func TestReportFiles(t *testing.T) {
	r, dir, stderr, code := writeReport(t, processtest.TinyModel(t, nil), map[string]string{
		"plain.jsonl": "\n" + reportBags(`"label":%q`), "partial.jsonl": reportBags(`"labels":{"hate":%q}`),
	}, "--no-baselines", "--precisions", "fp32,bf16", "--examples", "1")
	require.Equal(t, cli.ExitDone, code, stderr)
	sets := map[string]writtenRow{}
	for _, row := range r.Sets {
		sets[row.Set] = row
	}
	for name, row := range sets {
		require.Equal(t, []int{20, 10}, []int{row.Responses, row.Violations}, name)
	}
	require.False(t, sets["plain"].Partial)
	require.True(t, sets["partial"].Partial, "an aspect without a name is judged by all labels")
	require.Len(t, r.Groups, 6)
	require.Len(t, r.Baselines, 2, "length needs no Python")
	require.Len(t, r.Precisions, 2)
	require.Less(t, r.Precisions[1].MaxReward, 0.2)
	for name, secret := range map[string]bool{"report.md": false, "report.json": false, "examples.json": true} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, secret, strings.Contains(string(text), "Secret number"), name)
	}
}

func TestReportOnAspects(t *testing.T) {
	model := processtest.TinyModel(t, func(c *checkpoint.Config, m *checkpoint.Manifest) {
		c.NumLabels, c.Labels = 4, checkpoint.AspectLabels([]string{"hate", "harm"})
		m.Aspects = []checkpoint.Aspect{{Name: "hate", Weight: 1, Threshold: 0.4}, {Name: "harm", Weight: 1, Threshold: 0.6}}
	})
	r, _, stderr, code := writeReport(t, model, map[string]string{
		"hate.jsonl": reportBags(`"labels":{"hate":%q}`) + reportBags(`"labels":{"other":%q}`),
	}, "--no-baselines", "--precisions", "fp32")
	require.Equal(t, cli.ExitDone, code, stderr)
	require.Equal(t, 0.5, r.Threshold)
	require.Equal(t, []int{20, 20}, []int{r.Sets[0].Responses, r.Sets[0].Skipped}, "no aspect of the model is labeled in the others")
	require.Len(t, r.Aspects, 1)
	require.Equal(t, r.Sets[0].Metrics["bag_auroc"], r.Aspects[0].Metrics["bag_auroc"], "the only aspect that is labeled decides")
	require.NotEmpty(t, r.Sets[0].Metrics["bag_auroc"])
	require.Equal(t, r.Sets[0].Metrics["recall_violation"], r.Aspects[0].Metrics["recall_violation"])
}

func TestReportWithoutBaselinePackages(t *testing.T) {
	r, _, stderr, code := writeReport(t, processtest.TinyModel(t, nil), map[string]string{"a.jsonl": reportBags(`"label":%q`)},
		"--precisions", "fp32", "--python", "no-such-python")
	require.Equal(t, cli.ExitDone, code, stderr)
	require.Contains(t, stderr, "no baselines")
	require.NotEmpty(t, r.NoBaselines)
	require.NotContains(t, r.NoBaselines, string(filepath.Separator), "no path of this machine")
}

func TestReportRefuses(t *testing.T) {
	for name, c := range map[string]struct{ lines, says string }{
		"label": {`{"id":"a","response":"Hi."}`, "line 1: label"},
		"json":  {reportBags(`"label":%q`) + "{", "line 21"},
	} {
		_, _, stderr, code := writeReport(t, processtest.TinyModel(t, nil), map[string]string{"a.jsonl": c.lines}, "--no-baselines")
		require.Equal(t, cli.ExitUsage, code, name)
		require.Contains(t, stderr, c.says, name)
	}
}
