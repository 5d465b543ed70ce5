package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// tolerance is how far scores in fp32 may differ between processors.
const tolerance = 1e-4

func results(t *testing.T, lines string) []rewardmodel.Result {
	t.Helper()
	var out []rewardmodel.Result
	for line := range strings.Lines(lines) {
		var r rewardmodel.Result
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		out = append(out, r)
	}
	return out
}

// requireClose compares results, numbers within the tolerance.
func requireClose(t *testing.T, want, got string) {
	t.Helper()
	expected, actual := results(t, want), results(t, got)
	require.Len(t, actual, len(expected))
	for i, w := range expected {
		g := actual[i]
		require.InDelta(t, w.Reward, g.Reward, tolerance, w.ID)
		require.InDelta(t, w.Violation, g.Violation, tolerance, w.ID)
		if w.Witness != nil && g.Witness != nil {
			require.InDelta(t, w.Witness.Violation, g.Witness.Violation, tolerance, w.ID)
			g.Witness.Violation = w.Witness.Violation
		}
		require.Len(t, g.Instances, len(w.Instances), w.ID)
		for k := range w.Instances {
			require.InDelta(t, w.Instances[k].Violation, g.Instances[k].Violation, tolerance, w.ID)
		}
		g.Reward, g.Violation, g.Instances = w.Reward, w.Violation, w.Instances
		require.Equal(t, w, g, "all but the scores")
	}
}

func TestScoreGolden(t *testing.T) {
	model := tinyModel(t, nil)
	for name, args := range map[string][]string{
		"score.jsonl":      nil,
		"score.mean.jsonl": {"--aggregate", "mean", "--reward", "logit", "--offset-unit", "utf16", "--reasoning", "score"},
		"score.bare.jsonl": {"--no-instances", "--reward", "raw", "--aggregate", "topk", "--top-k", "1"},
	} {
		args = append([]string{"score", "--model", model, "--precision", "fp32", "--threads", "1"}, args...)
		stdout, stderr, code := assay(t, golden(t, "responses.jsonl"), args...)
		require.Equal(t, cli.ExitDone, code, stderr)
		update(t, name, stdout)
		requireClose(t, golden(t, name), stdout)
	}
}

func TestScoreTextsAndBadLines(t *testing.T) {
	model := tinyModel(t, nil)
	stdout, stderr, code := assay(t, "One. Two.\n\n\xffodd\n", "score", "--model", model, "--text", "--threads", "1")
	require.Equal(t, cli.ExitDone, code, stderr)
	got := results(t, stdout)
	require.Len(t, got, 3)
	require.Len(t, got[0].Instances, 2)
	require.True(t, got[1].Empty)
	require.Equal(t, "\ufffdodd", got[2].Witness.Text)
	require.Contains(t, stderr, `"responses":3`)

	in := "{\"response\":\"a\"}\n{\"response\":1}\n{\"response\":\"b\"}\n"
	stdout, stderr, code = assay(t, in, "score", "--model", model, "--threads", "1")
	require.Equal(t, cli.ExitUsage, code)
	require.Len(t, results(t, stdout), 1)
	require.Contains(t, stderr, "line 2: response")
	stdout, stderr, code = assay(t, in, "score", "--model", model, "--threads", "1", "--skip-bad")
	require.Equal(t, cli.ExitDone, code)
	require.Len(t, results(t, stdout), 2)
	require.Contains(t, stderr, "line 2: response")
}

func TestModelsThatAreRefused(t *testing.T) {
	damaged := tinyModel(t, nil)
	file, err := os.OpenFile(filepath.Join(damaged, "vocab.json"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString("\n")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	for name, c := range map[string]struct {
		dir  string
		says []string
	}{
		"context":    {tinyModel(t, func(_ *checkpoint.Config, m *checkpoint.Manifest) { m.Context = true }), []string{`"context": true`}},
		"vocabulary": {tinyModel(t, func(c *checkpoint.Config, _ *checkpoint.Manifest) { c.Vocab = 100 }), []string{"8300 tokens", "100 rows"}},
		"checksum":   {damaged, []string{"vocab.json", "sha-256"}},
		"base":       {"../rewardmodel/checkpoint/testdata/roberta-model", []string{"--allow-untrained"}},
		"tokenizer":  {"../rewardmodel/checkpoint/testdata/roberta-two", []string{"tokenizer.json"}},
		"nothing":    {"nowhere", []string{"--model nowhere", filepath.Join("models", "nowhere")}},
		"no model":   {"testdata", []string{"config.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := assay(t, "", "score", "--model", c.dir, "--threads", "1")
			require.Equal(t, cli.ExitUsage, code, stderr)
			require.Empty(t, stdout)
			for _, part := range c.says {
				require.Contains(t, strings.ToLower(strings.ReplaceAll(stderr, `\"`, `"`)), strings.ToLower(part))
			}
		})
	}
}

func TestVersionOfAModel(t *testing.T) {
	// Without assay.json, the weights name themselves.
	plain := tinyModel(t, nil)
	require.NoError(t, os.Remove(filepath.Join(plain, "assay.json")))
	m, err := localmodel.Flags{Model: plain}.Open()
	require.NoError(t, err)
	defer m.Close()
	version, err := m.Version(t.Context())
	require.NoError(t, err)
	require.Regexp(t, `^tiny-[0-9a-f]{8}$`, version)
	require.Equal(t, map[rewardmodel.Aggregate]float64{rewardmodel.AggregateMax: 0.5}, m.Thresholds())
}

func TestEval(t *testing.T) {
	model := tinyModel(t, nil)
	stdout, stderr, code := assay(t, "", "eval", "--bags", "testdata/bags.jsonl", "--model", model, "--threads", "1", "--resamples", "20")
	require.Equal(t, cli.ExitDone, code, stderr)
	var report map[string]any
	require.NoError(t, json.Unmarshal([]byte(stdout), &report))
	intervals := report["intervals"]
	delete(report, "intervals")
	for _, name := range []string{"avg_acc", "f1_violation", "f1_compliant", "bag_auroc", "bag_auprc", "instance_auroc", "witness_hit1"} {
		require.Contains(t, report, name)
		require.Contains(t, intervals, name)
	}
	for name, value := range report {
		require.GreaterOrEqual(t, value, 0.0, name)
		require.LessOrEqual(t, value, 1.0, name)
	}
	again, _, _ := assay(t, "", "eval", "--bags", "testdata/bags.jsonl", "--model", model, "--threads", "1", "--resamples", "20")
	require.Equal(t, stdout, again)

	// Every bag is called a violation below 0, and none above 1.
	for threshold, recall := range map[string]float64{"0": 1, "1": 0} {
		stdout, stderr, code = assay(t, "", "eval", "--bags", "testdata/bags.jsonl", "--model", model, "--threshold", threshold, "--resamples", "0")
		require.Equal(t, cli.ExitDone, code, stderr)
		var report map[string]any
		require.NoError(t, json.Unmarshal([]byte(stdout), &report))
		require.Equal(t, recall, report["recall_violation"])
		require.NotContains(t, report, "intervals")
	}
	for _, args := range [][]string{{"--threshold", "2"}, {"--resamples", "-1"}, {"--bags", "nowhere.jsonl"}, {"--bags", "testdata/texts.jsonl"}} {
		_, stderr, code = assay(t, "", append([]string{"eval", "--bags", "testdata/bags.jsonl", "--model", model}, args...)...)
		require.Equal(t, cli.ExitUsage, code, stderr)
		require.Contains(t, stderr, args[0])
	}
}

func TestVersionCommand(t *testing.T) {
	stdout, stderr, code := assay(t, "", "version")
	require.Equal(t, cli.ExitDone, code, stderr)
	for _, name := range []string{"version", "commit", "go1.", "libtorch", "fp32, bf16", "cpu"} {
		require.Contains(t, stdout, name)
	}
}
