package childproc

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel/retrain"
	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

// testChild returns a Child that runs the test binary as assay, and the logs that it forwards.
func testChild(t *testing.T) (*Child, *syncBuffer) {
	t.Helper()
	t.Setenv(processtest.ChildVariable, "1")
	logs := &syncBuffer{}
	c, err := New("", zerolog.New(logs))
	require.NoError(t, err)
	return c, logs
}

// syncBuffer is safe for concurrent use.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestChildTrainsAndReportsProgress(t *testing.T) {
	t.Setenv("ASSAY_METHOD", "none") // the child does not inherit settings of the service
	c, logs := testChild(t)
	out := filepath.Join(t.TempDir(), "mine")
	var reported []retrain.Progress
	err := c.Run(t.Context(), append(processtest.TrainArgs(processtest.TinyModel(t, nil), processtest.BagFile(t, 20), out, 2), "--progress", "json"), Limits{}, func(line []byte) {
		var p retrain.Progress
		require.NoError(t, json.Unmarshal(line, &p))
		reported = append(reported, p)
	})
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(out, "model.safetensors"))
	require.GreaterOrEqual(t, len(reported), 4, "two stages of two epochs")
	last := reported[len(reported)-1]
	require.Equal(t, 2, last.Epochs)
	require.Equal(t, last.Steps, last.Step)
	require.Zero(t, last.SecondsLeft)
	require.Contains(t, logs.String(), `"component":"train"`)
	require.Contains(t, logs.String(), `"message":"checkpoint written"`)
}

func TestErrorOfAFailedChildHasItsLastLogLines(t *testing.T) {
	c, logs := testChild(t)
	err := c.Run(t.Context(), processtest.TrainArgs(processtest.TinyModel(t, nil), "nowhere.jsonl", filepath.Join(t.TempDir(), "mine"), 1), Limits{}, nil)
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, cli.ExitUsage, exit.ExitCode())
	require.ErrorContains(t, err, "assay train: exit status 2: ")
	require.ErrorContains(t, err, "--bags: nowhere.jsonl")
	require.Contains(t, logs.String(), `"level":"error","component":"train"`)
}

// longTraining is a training run that does not finish within a test.
func longTraining(t *testing.T) (args []string, out string) {
	t.Helper()
	out = filepath.Join(t.TempDir(), "mine")
	return append(processtest.TrainArgs(processtest.TinyModel(t, nil), processtest.BagFile(t, 20), out, 1_000_000), "--progress", "json"), out
}

func TestChildOverItsLimits(t *testing.T) {
	for name, c := range map[string]struct {
		limits Limits
		is     error
		says   string
	}{
		"memory": {Limits{Memory: 1 << 20}, ErrMemory, "--train-memory 1 MiB"},
		"time":   {Limits{Time: 200 * time.Millisecond}, ErrTime, "--train-timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			child, _ := testChild(t)
			args, out := longTraining(t)
			err := child.Run(t.Context(), args, c.limits, nil)
			require.ErrorIs(t, err, c.is)
			require.ErrorContains(t, err, c.says)
			require.NoDirExists(t, out)
		})
	}
}

// A child stops soon after its context ends, and saves its state for the next run.
func TestChildIsStoppedByItsContext(t *testing.T) {
	c, logs := testChild(t)
	args, out := longTraining(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the lease is lost")
	err := c.Run(ctx, args, Limits{}, func(line []byte) {
		if strings.Contains(string(line), `"epoch":3`) {
			cancel(gone)
		}
	})
	require.ErrorIs(t, err, gone)
	require.Contains(t, logs.String(), "context canceled", "it exited by itself and was not killed")
	require.FileExists(t, filepath.Join(out+".training", "state.json"))
}

func TestLineSplitter(t *testing.T) {
	var lines []string
	w := &lineSplitter{each: func(line []byte) { lines = append(lines, string(line)) }}
	long := strings.Repeat("x", maxLine+5)
	for _, part := range []string{"a", "b\n\nc\n", long + "\nd", "e"} {
		n, err := w.Write([]byte(part))
		require.NoError(t, err)
		require.Equal(t, len(part), n)
	}
	w.flush()
	require.Equal(t, []string{"ab", "c", long[:maxLine], "de"}, lines)
}

func TestChildEnvironment(t *testing.T) {
	env := childEnvironment([]string{"PATH=/bin", "ASSAY_MODEL=x", "OMP_WAIT_POLICY=ACTIVE", "HOME=/"})
	require.Equal(t, []string{"PATH=/bin", "HOME=/", "OMP_WAIT_POLICY=PASSIVE", "GOMP_SPINCOUNT=0", "KMP_BLOCKTIME=0"}, env)
	require.Contains(t, os.Environ(), "PATH="+os.Getenv("PATH"))
}
