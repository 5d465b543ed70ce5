package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/lab/bench"
	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

// The service over all of its protocols: other servers need packages that a test cannot install.
func TestBenchPeers(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it needs /proc")
	}
	dir := t.TempDir()
	texts := filepath.Join(dir, "texts.jsonl")
	var lines strings.Builder
	for range 5 {
		lines.WriteString(`{"text":"You are great. The film was long. I liked it!"}` + "\n" + `{"text":"No."}` + "\n")
	}
	require.NoError(t, os.WriteFile(texts, []byte(lines.String()), 0o600))
	args := []string{
		"peers", "--dir", dir, "--work", texts, "--responses", "8", "--models", processtest.TinyModel(t, nil), "--only", "assay-fp32",
		"--concurrency", "2", "--bulk", "8", "--repetitions", "1", "--threads", "1",
	}
	stdout, stderr, code := lab(t, "", args...)
	require.Equal(t, cli.ExitDone, code, stderr)
	require.Equal(t, 2, strings.Count(stdout, "### tiny, "), stdout)
	records, err := bench.OpenRecords(filepath.Join(dir, "results.jsonl"))
	require.NoError(t, err)
	require.Len(t, records.All(), 6, "three protocols, two cases")
	for _, r := range records.All() {
		require.Empty(t, r.Error)
		require.Equal(t, 8, r.Responses)
		require.GreaterOrEqual(t, r.CPU, r.ModelCPU)
		require.Contains(t, stdout, "| assay-fp32 | "+r.Protocol+" | 1 | ")
		require.NotEmpty(t, r.Versions["assay"])
	}

	again, stderr, code := lab(t, "", args...)
	require.Equal(t, cli.ExitDone, code, stderr)
	require.Equal(t, stdout, again, "nothing was left to measure")

	grown, stderr, code := lab(t, "", append(args, "--grow", "--max-responses", "10", "--sentences", "10", "--queue", "4", "--protocols", "NATS")...)
	require.Equal(t, cli.ExitDone, code, stderr)
	for _, c := range []string{"responses 1", "responses 10", "sentences 1", "sentences 10", "queue 1", "queue 4"} {
		require.Contains(t, grown, "### tiny, "+c+"\n")
	}
	require.NotContains(t, grown, "Failed")
}

func TestBenchPeersSelects(t *testing.T) {
	stdout, stderr, code := lab(t, "", "peers", "--list", "--only", "infinity,assay-bf16,transformers-bf16,openvino,ctranslate2")
	require.Equal(t, cli.ExitDone, code, stderr)
	require.Equal(t, "transformers-bf16\ntransformers-bf16-sorted\nopenvino-bf16\nopenvino-bf16-sorted\nopenvino-int8\nopenvino-int8-sorted\nctranslate2-int8\nctranslate2-int8-sorted\ninfinity-fp32\ninfinity-bf16\nassay-bf16\n", stdout)

	for says, args := range map[string][]string{
		"--only triton: no such server": {"--only", "triton"},
		"positive":                      {"--repetitions", "0"},
		"--work":                        {"--work", "nowhere.jsonl"},
	} {
		_, stderr, code := lab(t, "", append([]string{"peers", "--dir", t.TempDir()}, args...)...)
		require.Equal(t, cli.ExitUsage, code, says)
		require.Contains(t, stderr, says)
	}
}
