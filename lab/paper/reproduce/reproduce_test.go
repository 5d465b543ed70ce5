package reproduce

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/lab/paper"
	"assay/sidecar/cli"
)

// benchPaper runs the command with runs that take no time.
func benchPaper(t *testing.T, c *Command) (stdout, logged string, err error) {
	t.Helper()
	c.Preset, c.Jobs = paper.Small, 2
	c.Start = func(*Command) (paper.RunFunc, error) {
		return func(_ context.Context, s paper.Spec, progress func(int, int, string, float64)) (paper.Record, error) {
			progress(1, 1, "stage", 0.1)
			if s.Method == paper.SVDD {
				return paper.Record{}, errors.New("broken for a test")
			}
			return paper.Record{Metrics: map[string]float64{"avg_acc": 0.7}, Threshold: 0.5}, nil
		}, nil
	}
	var out, log bytes.Buffer
	err = c.Run(&cli.App{Context: t.Context(), Stdout: &out, Stderr: &log, Log: zerolog.New(&log), JSONLogs: true})
	return out.String(), log.String(), err
}

func TestBenchPaper(t *testing.T) {
	dir := t.TempDir()
	flags := Command{Report: dir, Backbone: "models/tiny/", Datasets: []string{paper.SST2}, Seeds: []uint64{0}, SigmaMacro: []int{1}}

	c := flags
	c.List = true
	stdout, _, err := benchPaper(t, &c)
	require.NoError(t, err)
	planned := strings.Count(stdout, "\n")
	require.Equal(t, 30, planned) // every method and BFGPU's settings
	require.Contains(t, stdout, "sst2 micro=2 macro=1 macro tiny lr=2e-05 epochs=5 batch=16 seed=0\n")
	require.NotContains(t, stdout, "done")

	c = flags
	_, logged, err := benchPaper(t, &c)
	require.ErrorContains(t, err, "1 runs failed")
	require.ErrorContains(t, err, "broken for a test")
	require.Contains(t, logged, "AvgAcc 70.00")
	data, err := os.ReadFile(filepath.Join(dir, "results.jsonl"))
	require.NoError(t, err)
	require.Equal(t, planned-1, bytes.Count(data, []byte{'\n'}))
	text, err := os.ReadFile(filepath.Join(dir, "README.md"))
	require.NoError(t, err)
	require.Contains(t, string(text), "| BFGPU | **70.00** |")

	c = flags
	c.List = true
	stdout, _, err = benchPaper(t, &c)
	require.NoError(t, err)
	require.Equal(t, planned-1, strings.Count(stdout, "done"))

	c = flags
	c.Methods = []string{paper.BFGPU}
	_, logged, err = benchPaper(t, &c)
	require.NoError(t, err)
	require.Contains(t, logged, "all runs are done already")
}

func TestBenchPaperNamesWhatIsWrong(t *testing.T) {
	for want, c := range map[string]Command{
		"--backbone":    {},
		"dataset is":    {Backbone: "b", Datasets: []string{"sst3"}},
		"no run of the": {Backbone: "b", Sigmas: []int{3}, Datasets: []string{paper.SST2}},
		"--plan":        {Backbone: "b", Plan: filepath.Join(t.TempDir(), "none.yaml")},
	} {
		c.Report = t.TempDir()
		_, _, err := benchPaper(t, &c)
		require.ErrorContains(t, err, want)
		require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
	}
}
