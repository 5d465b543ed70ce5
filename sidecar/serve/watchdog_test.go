package serve

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"assay/rewardmodel"
	"assay/sidecar/cli"
)

// stallAt is a model that stalls after a time, and recovers after another.
type stallAt struct {
	watchdog
	from, to time.Time
	limit    time.Duration
}

func (s stallAt) Usable() context.Context { return context.Background() }

func (s stallAt) Stalled() error {
	now := time.Now()
	if now.Before(s.from.Add(s.limit)) || now.After(s.to) {
		return nil
	}
	return &rewardmodel.StalledError{Took: now.Sub(s.from), Limit: s.limit}
}

func TestWatchModel(t *testing.T) {
	tests := []struct {
		name string
		hang time.Duration
		logs int
		ends bool
	}{
		{"a slow call", 50 * time.Second, 0, false},
		{"a call that ends after all", 90 * time.Second, 2, false},
		{"a call that never ends", time.Hour, 1, true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
				defer cancel()
				logs := 0
				err := watchModel(ctx, stallAt{from: began, to: began.Add(tc.hang), limit: time.Minute}, func(error) { logs++ })
				require.Equal(t, tc.logs, logs)
				if !tc.ends {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, rewardmodel.ErrStalled)
				require.InDelta(t, 2*time.Minute, time.Since(began), float64(2*time.Second))
				require.Equal(t, cli.ExitFailed, cli.ExitCode(err))
			})
		})
	}
}

// A model that fails on everything is replaced with its process at once.
func TestWatchBrokenModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		model, err := rewardmodel.NewWatchdog(nil)
		require.NoError(t, err)
		time.AfterFunc(time.Minute, func() { model.Broken(errors.New("NaN")) })
		err = watchModel(t.Context(), model, func(err error) { t.Error(err) })
		require.ErrorIs(t, err, rewardmodel.ErrBroken)
		require.Equal(t, time.Minute, time.Since(began))
		require.Equal(t, cli.ExitFailed, cli.ExitCode(err))
	})
}

// The process does not wait forever for requests that wait for the model.
func TestAwaitDoesNotWaitForAStalledModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var parts errgroup.Group
		release := make(chan struct{})
		parts.Go(func() error { <-release; return nil })
		unrecoverable := make(chan error, 1)
		why := errors.New("hung")
		unrecoverable <- why
		began := time.Now()
		require.ErrorIs(t, await(&parts, unrecoverable), why)
		require.Equal(t, 2*stallGrace, time.Since(began))
		close(release)
	})
}
