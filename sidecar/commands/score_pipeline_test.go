package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/sidecar/cli"
)

// scorerFunc is a model for tests.
type scorerFunc func(items []rewardmodel.Item) error

func (f scorerFunc) Score(_ context.Context, req rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	if err := f(req.Responses); err != nil {
		return rewardmodel.ScoreResponse{}, err
	}
	var answer rewardmodel.ScoreResponse
	for _, item := range req.Responses {
		answer.Results = append(answer.Results, rewardmodel.Result{ID: item.ID})
	}
	return answer, nil
}

func numbered(n int, failed error) iter.Seq2[cli.Record[rewardmodel.Item], error] {
	return func(yield func(cli.Record[rewardmodel.Item], error) bool) {
		for i := 1; i <= n; i++ {
			if !yield(cli.Record[rewardmodel.Item]{Line: i, Bytes: 100, Value: rewardmodel.Item{ID: fmt.Sprint(i)}}, nil) {
				return
			}
		}
		if failed != nil {
			yield(cli.Record[rewardmodel.Item]{}, failed)
		}
	}
}

func pipe(s scorer, out *bytes.Buffer) *pipeline {
	a := &cli.App{Log: zerolog.Nop(), Stdout: out, Stderr: out}
	return &pipeline{scorer: s, idle: func() bool { return false }, out: cli.NewLineWriter(out), progress: a.NewProgress("responses", -1)}
}

// ids are those of the results, in order.
func ids(out string) []string {
	var got []string
	for line := range strings.Lines(out) {
		got = append(got, strings.SplitN(line, `"`, 5)[3])
	}
	return got
}

func upTo(n int) []string {
	var want []string
	for i := 1; i <= n; i++ {
		want = append(want, fmt.Sprint(i))
	}
	return want
}

func TestPipelineKeepsOrderAndEndsAtTheInvalidLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns atomic.Int64
		slow := scorerFunc(func(items []rewardmodel.Item) error {
			<-time.After(time.Duration(100-turns.Add(1)) * time.Second) // later chunks are done earlier
			return nil
		})
		var out bytes.Buffer
		bad := errors.New("bad line")
		require.ErrorIs(t, pipe(slow, &out).run(t.Context(), numbered(5*chunkItems+7, bad), ""), bad)
		require.Equal(t, upTo(5*chunkItems+7), ids(out.String()))
	})
}

func TestPipelineWaitsForAFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		full := scorerFunc(func([]rewardmodel.Item) error {
			if tries.Add(1) < 5 {
				return &rewardmodel.OverloadedError{RetryAfter: 2 * time.Second}
			}
			return nil
		})
		var out bytes.Buffer
		start := time.Now()
		require.NoError(t, pipe(full, &out).run(t.Context(), numbered(3, nil), ""))
		require.Equal(t, upTo(3), ids(out.String()))
		require.Equal(t, 8*time.Second, time.Since(start))
	})
}

func TestPipelineSplitsRequestsThatAreTooLarge(t *testing.T) {
	small := func(bad string) scorerFunc {
		return func(items []rewardmodel.Item) error {
			isBad := func(item rewardmodel.Item) bool { return item.ID == bad }
			if len(items) > 3 || slices.ContainsFunc(items, isBad) {
				return &rewardmodel.InputError{Kind: rewardmodel.KindTooLarge, Message: "too large"}
			}
			return nil
		}
	}
	var out bytes.Buffer
	require.NoError(t, pipe(small(""), &out).run(t.Context(), numbered(100, nil), ""))
	require.Equal(t, upTo(100), ids(out.String()))

	out.Reset()
	err := pipe(small("50"), &out).run(t.Context(), numbered(100, nil), "in")
	require.ErrorContains(t, err, "in: line 50: too large")
	require.Equal(t, cli.ExitUsage, cli.ExitCode(err))
	require.Equal(t, upTo(49), ids(out.String()), "the results before it are written")

	out.Reset()
	p := pipe(small("50"), &out)
	var skipped []error
	p.skip = func(err error) { skipped = append(skipped, err) }
	require.NoError(t, p.run(t.Context(), numbered(100, nil), ""))
	require.Len(t, ids(out.String()), 99)
	require.Len(t, skipped, 1)
}

func TestPipelineEndsWithAFailingModel(t *testing.T) {
	var calls atomic.Int64
	failing := scorerFunc(func([]rewardmodel.Item) error {
		if calls.Add(1) > 2 {
			return rewardmodel.ErrModel
		}
		return nil
	})
	var out bytes.Buffer
	err := pipe(failing, &out).run(t.Context(), numbered(10_000, nil), "")
	require.ErrorIs(t, err, rewardmodel.ErrModel)
	require.Equal(t, cli.ExitFailed, cli.ExitCode(err))
}

func TestPipelineFlushesWhenTheInputIsIdle(t *testing.T) {
	var out bytes.Buffer
	var calls atomic.Int64
	p := pipe(scorerFunc(func(items []rewardmodel.Item) error {
		calls.Add(int64(len(items)))
		if len(items) != 1 {
			return errors.New("the first one waited for the others")
		}
		return nil
	}), &out)
	p.idle = func() bool { return true }
	require.NoError(t, p.run(t.Context(), numbered(5, nil), ""))
	require.EqualValues(t, 5, calls.Load())
}
