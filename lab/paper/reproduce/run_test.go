package reproduce

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/lab/labtest"
	"assay/lab/paper"
	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

// paperData writes ready-made bags of three short sentences, one of them an insult in each violation.
func paperData(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	at := filepath.Join(dir, "own", "sigma2")
	require.NoError(t, os.MkdirAll(at, 0o700))
	for _, part := range []string{"train", "test"} {
		var b strings.Builder
		for i := range 12 {
			label, third, witness := "compliant", "It rains.", ""
			if i%2 == 1 {
				label, third, witness = "violation", "You fool.", `,"witness":2`
			}
			fmt.Fprintf(&b, `{"id":"%s%d","label":"%s","instances":["Train %d leaves at noon.","Have a good trip.","%s"]%s}`+"\n", part, i, label, i, third, witness)
		}
		require.NoError(t, os.WriteFile(filepath.Join(at, part+".0.jsonl"), []byte(b.String()), 0o600))
	}
	return dir
}

// paperRuns repeats the given methods on paperData and returns their records by method.
func paperRuns(t *testing.T, model, data string, methods []string, args ...string) (map[string]paper.Record, string, int) {
	t.Helper()
	dir := t.TempDir()
	plan := filepath.Join(dir, "plan.yaml")
	text := fmt.Sprintf("runs:\n  - {datasets: [\"files:own\"], sigma-micro: [2], methods: [%s], rate: 1e-3, epochs: 2, batch: 6}\n", `"`+strings.Join(methods, `","`)+`"`)
	require.NoError(t, os.WriteFile(plan, []byte(text), 0o600))
	_, stderr, code := labtest.Run(t, labtest.Program[benches](), "", append([]string{"paper", "--plan", plan, "--backbone", model, "--data", data,
		"--report", dir, "--jobs", "2", "--threads", "1", "--precision", "fp32"}, args...)...)
	records := map[string]paper.Record{}
	lines, err := os.ReadFile(filepath.Join(dir, "results.jsonl"))
	require.NoError(t, err)
	for line := range strings.Lines(string(lines)) {
		r, err := paper.ParseRecord([]byte(line))
		require.NoError(t, err)
		records[r.Spec.Method] = r
	}
	if code == cli.ExitDone {
		require.FileExists(t, filepath.Join(dir, "README.md"))
	}
	return records, stderr, code
}

// Every kind of method trains and is measured, and the same run finds the same again.
func TestBenchPaperTrainsEveryKindOfMethod(t *testing.T) {
	model, data := processtest.TinyModel(t, nil), paperData(t)
	methods := []string{"bfgpu", "macro", "sad-macro", "svdd", "mil-topk", "mil-fgsa", "nnpu+pl+adt", "oracle"}
	first, stderr, code := paperRuns(t, model, data, methods)
	require.Equal(t, cli.ExitDone, code, stderr)
	require.Len(t, first, len(methods))
	for _, r := range first {
		require.Equal(t, paper.Counts{TrainViolation: 6, TrainCompliant: 6, TrainInstances: 36, TestViolation: 6, TestCompliant: 6, TestInstances: 36}, r.Counts)
		require.Contains(t, r.Metrics, "avg_acc")
		require.Contains(t, r.Metrics, "bag_auroc")
		require.Len(t, r.AtThreshold, 5)
		require.NotEmpty(t, r.Loss)
		require.Positive(t, r.InstanceSpeed)
		require.Equal(t, "fp32", r.Machine.Precision)
	}
	require.Contains(t, first["bfgpu"].Metrics, "witness_hit1")
	require.NotContains(t, first["macro"].Metrics, "witness_hit1")

	again, stderr, code := paperRuns(t, model, data, []string{"bfgpu", "mil-fgsa"})
	require.Equal(t, cli.ExitDone, code, stderr)
	for method, r := range again {
		require.Equal(t, first[method].Metrics, r.Metrics)
		require.Equal(t, first[method].Loss, r.Loss)
	}
}

// A language model is asked about the test bags; one unreadable answer is counted and noted.
func TestBenchPaperAsksAJudge(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answer := "positive"
		switch {
		case strings.Contains(string(body), "Train 3 "):
			answer = "I would rather not say"
		case strings.Contains(string(body), "You fool."):
			answer = "negative"
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{
			"finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": answer}}}})
	}))
	defer server.Close()
	records, stderr, code := paperRuns(t, processtest.TinyModel(t, nil), paperData(t), []string{"llm:stub"}, "--judge-url", server.URL+"/v1")
	require.Equal(t, cli.ExitDone, code, stderr)
	r := records["llm:stub"]
	require.InDelta(t, (1+5.0/6)/2, r.Metrics["avg_acc"], 1e-9)
	require.Contains(t, r.Note, "1 of 12 replies")
	require.NotContains(t, r.Metrics, "bag_auroc")
}

// What is wrong with a run is said, and the others are done.
func TestBenchPaperSaysWhyARunFailed(t *testing.T) {
	data := paperData(t)
	_, stderr, code := paperRuns(t, processtest.TinyModel(t, nil), data, []string{"llm:stub", "macro"})
	require.NotEqual(t, cli.ExitDone, code)
	require.Contains(t, stderr, "--judge-url is missing")
	require.Contains(t, stderr, "1 of 2 runs done")
}
