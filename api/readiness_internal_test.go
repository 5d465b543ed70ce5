package api

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// Callers that wait for a running check share its result, never an earlier one.
func TestWaitingCallersGetTheRunningCheck(t *testing.T) {
	var runs atomic.Int64
	r := newReadiness([]Check{{Name: "streams", AtStart: true, Ready: func(ctx context.Context) error {
		runs.Add(1)
		<-ctx.Done()
		return ctx.Err()
	}}}, zerolog.Nop())
	r.started.Store(true)
	r.checks[0].last.Store(&checkResult{at: time.Now().Add(-readyFor)}) // ready, but expired
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			if r.get("streams").err == nil {
				t.Error("an outdated outcome")
			}
		})
	}
	callers.Wait()
	require.EqualValues(t, 1, runs.Load())
	require.NoError(t, r.get().err, "it does not count after the start")
}
