package paper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func somePlan(t *testing.T, n int) []Spec {
	t.Helper()
	plan := preset(t, Small, nil, Options{})
	require.GreaterOrEqual(t, len(plan), n)
	return plan[:n]
}

func runnerOn(t *testing.T, path string, workers int, run RunFunc) (Runner, *Board) {
	t.Helper()
	board := NewBoard(workers, 100)
	return Runner{Store: openStore(t, path), Run: run, Workers: workers, Observer: board, Version: "v1", Machine: Machine{CPU: "cpu", Threads: 2}}, board
}

func fine(_ context.Context, s Spec, progress func(int, int, string, float64)) (Record, error) {
	progress(1, 2, "stage", 0.5)
	r := syntheticRecord(s, 0.7)
	r.Machine, r.WallSeconds, r.Version = Machine{Precision: "bf16"}, 0, ""
	return r, nil
}

func TestRunnerDoesWhatIsOutstanding(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.jsonl")
	plan := somePlan(t, 12)
	broken := errors.New("broken")
	runner, board := runnerOn(t, path, 3, func(ctx context.Context, s Spec, p func(int, int, string, float64)) (Record, error) {
		if s.Method == MILMax {
			return Record{}, broken
		}
		return fine(ctx, s, p)
	})
	outcome, err := runner.Do(t.Context(), plan)
	require.NoError(t, err)
	require.Equal(t, 11, outcome.Done)
	require.Len(t, outcome.Failed, 1)
	require.ErrorIs(t, outcome.Failed[0].Err, broken)
	require.Equal(t, MILMax, outcome.Failed[0].Spec.Method)
	require.Len(t, board.Endings(), 12)
	require.Empty(t, board.Endings())

	for _, r := range runner.Store.Records() {
		require.Equal(t, "v1", r.Version)
		require.Equal(t, Machine{CPU: "cpu", Threads: 2, Precision: "bf16"}, r.Machine)
		require.WithinDuration(t, time.Now(), r.Date, time.Minute)
	}

	var calls atomic.Int32
	again, _ := runnerOn(t, path, 1, func(ctx context.Context, s Spec, p func(int, int, string, float64)) (Record, error) {
		calls.Add(1)
		return fine(ctx, s, p)
	})
	outcome, err = again.Do(t.Context(), plan)
	require.NoError(t, err)
	require.Equal(t, Outcome{Recorded: 11, Done: 1}, outcome)
	require.EqualValues(t, 1, calls.Load(), "a run that is done is not repeated")
	require.Empty(t, again.Store.Outstanding(plan))
}

func TestRunnerStopsWhenAsked(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	runner, _ := runnerOn(t, filepath.Join(t.TempDir(), "results.jsonl"), 2, func(ctx context.Context, s Spec, p func(int, int, string, float64)) (Record, error) {
		if s.Method == Oracle { // the third run
			cancel()
		}
		if s.Method == Oracle || s.Method != BFGPU && s.Method != Macro {
			<-ctx.Done()
			return Record{}, fmt.Errorf("training: %w", ctx.Err())
		}
		return fine(ctx, s, p)
	})
	outcome, err := runner.Do(ctx, somePlan(t, 10))
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, outcome.Failed, "an interrupted run has not failed")
	require.Equal(t, 2, outcome.Done)
	require.Len(t, runner.Store.Records(), 2)
}

func TestRunnerStopsWhenRecordsAreLost(t *testing.T) {
	dir := t.TempDir() // a directory cannot be written as a file
	store := &Store{path: dir, known: map[string]bool{}}
	runner := Runner{Store: store, Run: fine, Workers: 1, Observer: NewBoard(1, 3)}
	_, err := runner.Do(t.Context(), somePlan(t, 3))
	require.ErrorIs(t, err, errStore)
}

// Another process may complete a run of the plan during this one.
func TestRunnerSkipsWhatAnotherProcessDid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.jsonl")
	plan := somePlan(t, 2)
	other := openStore(t, path)
	runner, _ := runnerOn(t, path, 1, func(ctx context.Context, s Spec, p func(int, int, string, float64)) (Record, error) {
		for _, s := range plan {
			if err := other.Append(syntheticRecord(s, 0.6)); err != nil {
				return Record{}, err
			}
		}
		return fine(ctx, s, p)
	})
	outcome, err := runner.Do(t.Context(), plan)
	require.NoError(t, err)
	require.Equal(t, Outcome{Recorded: 2}, outcome)
	require.InDelta(t, 0.6, runner.Store.Records()[0].Metrics[avgAcc], 1e-9)
}

func TestBoard(t *testing.T) {
	plan := somePlan(t, 2)
	b := NewBoard(2, 4)
	require.Len(t, b.Lines(0), 2)
	b.Started(0, plan[0])
	b.Started(1, plan[1])
	b.Progressed(1, 50, 100, "macro", 0.25)
	lines := b.Lines(time.Minute)
	require.Equal(t, "0 of 4 runs done, 0 failed, 1m00s elapsed, about 7m00s left", lines[0])
	require.Contains(t, lines[2], "starting")
	require.Contains(t, lines[3], "50/100   0.2500")
	b.Ended(0, plan[0], syntheticRecord(plan[0], 0.7), nil)
	b.Ended(1, plan[1], Record{}, errors.New("no room"))
	require.Equal(t, []string{
		plan[0].Key() + ": AvgAcc 70.00, best T 72.00, AUROC 75.00, in 2m00s",
		plan[1].Key() + ": no room",
	}, b.Endings())
	require.Equal(t, "1 of 4 runs done, 1 failed, 2h05m elapsed, about 2h05m left", b.Lines(125 * time.Minute)[0])
}

func TestScreenDrawsOver(t *testing.T) {
	var out bytes.Buffer
	s := Screen{W: &out, Width: 10}
	require.NoError(t, s.Draw(nil, []string{"a", strings.Repeat("b", 30)}))
	require.NoError(t, s.Draw([]string{"a line that stays"}, []string{"c"}))
	require.Equal(t, "a\nbbbbbbbbb\n\x1b[2A\r\x1b[Ja line that stays\nc\n", out.String())
}
