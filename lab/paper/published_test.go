package paper

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func results(t *testing.T) []Published {
	t.Helper()
	all, err := PublishedResults()
	require.NoError(t, err)
	return all
}

func TestPublishedTablesAreComplete(t *testing.T) {
	counts := map[string]int{}
	for _, p := range results(t) {
		counts[p.Table]++
		require.True(t, p.Mean >= 0 && p.Mean <= 100, "%+v", p)
		if p.Dataset == SST2 || p.Dataset == IMDB || p.Dataset == Amazon || p.Dataset == Sentiment140 {
			require.True(t, knownMethod(p.Method), p.Method)
		}
	}
	require.Equal(t, map[string]int{
		"sst2": 14*6 - 1, "sst2-f1": 14*6 - 1, "sentiment140": 2 * (14*6 - 1), "imdb": 2 * (14*5 - 1), "amazon": 2 * (14*5 - 1),
		"sst2-macro5": 2 * (16*6 - 1), "sst2-macro10": 2 * (16*6 - 1), "deberta": 2 * (14*6 - 1), "pu-pl-adt": 2 * 5 * 6,
		"ablation-imdb": 2 * 4 * 4, "ablation-sst2": 2 * 4 * 5, "idc": 2 * 14, "csqi": 2 * 14, "llm": 2 * 5 * 4,
		"lambda-bfgpu": 2 * 5, "lambda-pse": 2 * 5,
	}, counts) // the paper has no top-k at the smallest sigma_micro
}

func TestPublishedCells(t *testing.T) {
	index, err := newPublished()
	require.NoError(t, err)
	for _, c := range []struct {
		dataset  string
		macro    int
		backbone string
		metric   string
		method   string
		settings Settings
		column   string
		mean, sd float64
	}{
		{SST2, 1, roberta, "avg_acc", BFGPU, nil, "10", 82.56, 1.64},
		{SST2, 1, "all-minilm", "avg_acc", NNPU + PLADT, nil, "4", 83.83, 1.42},
		{SST2, 1, "microsoft-deberta-v3-base", "avg_acc", BFGPU, nil, "8", 83.96, 0},
		{SST2, 1, roberta, "f1_compliant", MILFGSA, nil, "2", 49.38, 43.89},
		{SST2, 5, roberta, "avg_acc", MacroUnder, nil, "2", 75.41, 0},
		{SST2, 10, roberta, "f1_compliant", SVDD, nil, "auc", 59.93, 0},
		{IMDB, 1, roberta, "avg_acc", BFGPU, Settings{"threshold": "fixed"}, "5", 81.18, 2.13},
		{IMDB, 1, roberta, "avg_acc", BFGPU, Settings{"lambda-pu": "3"}, "5", 84.99, 0},
		{Amazon, 1, roberta, "f1_compliant", RobustPU, nil, "3", 86.60, 0.83},
		{Sentiment140, 1, roberta, "avg_acc", BFGPU, nil, "10", 64.45, 0.35},
		{Sentiment140, 1, "", "avg_acc", "llm:Qwen3", nil, "10", 64.71, 0},
	} {
		p, ok := index.find(c.dataset, c.macro, c.backbone, c.metric, c.method, c.settings, c.column)
		require.True(t, ok, "%+v", c)
		require.Equal(t, []float64{c.mean, c.sd}, []float64{p.Mean, p.SD}, "%+v", c)
	}
	_, ok := index.find(SST2, 1, roberta, "avg_acc", MILTopK, nil, "2")
	require.False(t, ok, "the paper leaves this cell empty")
}

// The report lists contradictions within the paper; a change of the transcription shows here.
func TestContradictions(t *testing.T) {
	var b strings.Builder
	for _, c := range Contradictions(results(t)) {
		fmt.Fprintf(&b, "%s | %s | %s\n", c.Table, c.Method, c.What)
	}
	golden(t, "contradictions.txt", []byte(b.String()))
}

// golden compares with a file of testdata; UPDATE_GOLDEN=1 writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := "testdata/" + name
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}
