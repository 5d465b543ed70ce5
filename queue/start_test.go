package queue

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/jstest"
	"assay/rewardmodel/wire"
)

// startSlowly starts a queue whose servers have no leader until release is called.
func startSlowly(t *testing.T) (q *Queue, started <-chan error, release func()) {
	q = openQueue(t, testConfig(t))
	released, waiting := make(chan struct{}), make(chan struct{}, 1)
	q.js = hooked{JetStream: q.js, create: func() error {
		select {
		case <-released:
			return nil
		default:
		}
		select {
		case waiting <- struct{}{}:
		default:
		}
		return nats.ErrTimeout
	}}
	ended := make(chan error, 1)
	go func() { ended <- q.Start(t.Context(), scorerFunc(good)) }()
	<-waiting
	return q, ended, func() { close(released) }
}

// While a start waits for the servers, readiness, the limits and a crash do not.
func TestStartThatWaits(t *testing.T) {
	t.Parallel()
	q, started, release := startSlowly(t)
	require.ErrorIs(t, q.Ready(jstest.Context(t)), ErrNotReady)
	require.ErrorContains(t, q.Start(jstest.Context(t), scorerFunc(good)), "started or drained before")
	q.SetLimits(wire.Limits{MaxResponses: 3})
	q.MarkCrash()
	require.Empty(t, started)
	release()
	require.NoError(t, <-started)
	require.NoError(t, q.Ready(jstest.Context(t)))
	require.Equal(t, 3, q.service.limits.Load().MaxResponses)
	require.Error(t, q.worker.crashing.Err(), "what it has in flight stays in the journal")
}

// Drain ends a start that waits.
func TestDrainEndsTheStart(t *testing.T) {
	t.Parallel()
	q, started, _ := startSlowly(t)
	ctx := jstest.Context(t)
	require.NoError(t, q.Drain(ctx))
	require.ErrorIs(t, <-started, context.Canceled)
	require.ErrorIs(t, q.Ready(ctx), ErrNotReady)
	require.Error(t, q.Start(ctx, scorerFunc(good)), "it is drained")
}
