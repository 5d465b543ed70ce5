// Package queuetest starts the NATS side of assay for the tests of other
// packages: a real server with its data in a temporary directory.
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
	"assay/queue/embedded"
)

// closeTimeout bounds the shutdown of what a test started.
const closeTimeout = time.Minute

// Config returns the configuration of a queue on a free port with a data directory of the
// test, whose worker retries quickly.
func Config(t testing.TB) queue.Config {
	return queue.Config{
		Server: embedded.Config{Listen: "127.0.0.1:0", DataDir: t.TempDir()},
		Worker: queue.WorkerConfig{RetryBase: 5 * time.Millisecond, RetryMax: 100 * time.Millisecond},
	}
}

// Open opens a queue and closes it with the test. An empty data directory or address in
// cfg becomes a temporary directory and a free port.
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
	t.Cleanup(func() { Close(t, q) })
	return q
}

// Close closes a queue before the end of the test.
func Close(t testing.TB, q *queue.Queue) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	require.NoError(t, q.Close(ctx))
}

// Replica opens the queue of another process on the server of q.
func Replica(t testing.TB, q *queue.Queue, cfg queue.Config) *queue.Queue {
	cfg.Conn.URL = q.URL()
	return Open(t, cfg)
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
