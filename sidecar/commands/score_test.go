package commands_test

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

func TestScoreGolden(t *testing.T) {
	model := processtest.TinyModel(t, nil)
	for name, args := range map[string][]string{
		"score.jsonl":      nil,
		"score.mean.jsonl": {"--aggregate", "mean", "--reward", "logit", "--offset-unit", "utf16", "--reasoning", "score"},
		"score.bare.jsonl": {"--no-instances", "--reward", "raw", "--aggregate", "topk", "--top-k", "1"},
	} {
		args = append([]string{"score", "--model", model, "--precision", "fp32", "--threads", "1"}, args...)
		stdout, stderr, code := assay(t, golden(t, "responses.jsonl"), args...)
		require.Equal(t, cli.ExitDone, code, stderr)
		update(t, name, stdout)
		processtest.RequireClose(t, golden(t, name), stdout)
	}
}

func TestScoreTextsAndInvalidLines(t *testing.T) {
	model := processtest.TinyModel(t, nil)
	stdout, stderr, code := assay(t, "One. Two.\n\n\xffodd\n", "score", "--model", model, "--text", "--threads", "1")
	require.Equal(t, cli.ExitDone, code, stderr)
	got := processtest.Results(t, stdout)
	require.Len(t, got, 3)
	require.Len(t, got[0].Instances, 2)
	require.True(t, got[1].Empty)
	require.Equal(t, "\ufffdodd", got[2].Witness.Text)
	require.Contains(t, stderr, `"responses":3`)

	in := "{\"response\":\"a\"}\n{\"response\":1}\n{\"response\":\"b\"}\n"
	stdout, stderr, code = assay(t, in, "score", "--model", model, "--threads", "1")
	require.Equal(t, cli.ExitUsage, code)
	require.Len(t, processtest.Results(t, stdout), 1)
	require.Contains(t, stderr, "line 2: response")
	stdout, stderr, code = assay(t, in, "score", "--model", model, "--threads", "1", "--skip-bad")
	require.Equal(t, cli.ExitDone, code)
	require.Len(t, processtest.Results(t, stdout), 2)
	require.Contains(t, stderr, "line 2: response")
}

func TestEval(t *testing.T) {
	model := processtest.TinyModel(t, nil)
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

	// With a threshold below 0, every bag is a violation; above 1, none is.
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
