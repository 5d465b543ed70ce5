// Package queuetest starts the NATS side of assay for the tests of other
// packages: a real server with its data in a temporary folder.
package queuetest

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue"
)

// closeWithin bounds the end of what a test started.
const closeWithin = 20 * time.Second

// Open opens a queue on a free port and closes it with the test. A server or
// connection that cfg describes is used as it is, but for an empty data folder
// or address.
func Open(t testing.TB, cfg queue.Config) *queue.Queue {
	t.Helper()
	if cfg.Server.DataDir == "" {
		cfg.Server.DataDir = t.TempDir()
	}
	if cfg.Server.Listen == "" {
		cfg.Server.Listen = "127.0.0.1:0"
	}
	q, err := queue.Open(t.Context(), cfg, zerolog.Nop(), prometheus.NewRegistry())
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
		defer cancel()
		require.NoError(t, q.Close(ctx))
	})
	return q
}

// Start opens a queue that scores with scorer.
func Start(t testing.TB, scorer queue.Scorer) *queue.Queue {
	t.Helper()
	q := Open(t, queue.Config{})
	require.NoError(t, q.Start(t.Context(), scorer))
	return q
}

// Connect connects to the server of q over a socket, as another process would,
// and closes the connection with the test.
func Connect(t testing.TB, q *queue.Queue) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(q.URL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}
