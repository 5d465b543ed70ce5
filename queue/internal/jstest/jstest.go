// Package jstest helps the tests of package queue and the packages below it: NATS servers,
// and what is stored in streams.
package jstest

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// Timeout bounds the wait for a condition on a machine that is busy.
const Timeout = time.Minute

// Context returns a context that ends after Timeout.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	t.Cleanup(cancel)
	return ctx
}

// Server starts a NATS server with JetStream on a free port.
func Server(t testing.TB, opts *server.Options) *server.Server {
	t.Helper()
	opts.Host, opts.NoSigs, opts.NoLog = "127.0.0.1", true, true
	if opts.Port == 0 {
		opts.Port = -1
	}
	opts.JetStream = true
	if opts.JetStreamMaxStore == 0 { // by default the limit depends on the free space of the disk
		opts.JetStreamMaxStore = 64 << 30
	}
	if opts.StoreDir == "" {
		opts.StoreDir = t.TempDir()
	}
	srv, err := server.NewServer(opts)
	require.NoError(t, err)
	srv.Start()
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	require.True(t, srv.ReadyForConnections(Timeout))
	return srv
}

// Connect starts a server and connects to it.
func Connect(t testing.TB, opts *server.Options) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect(Server(t, opts).ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc, JetStream(t, nc)
}

// JetStream returns the JetStream of a connection.
func JetStream(t testing.TB, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	jet, err := jetstream.New(nc)
	require.NoError(t, err)
	return jet
}

// StreamConfig returns the configuration of a stream.
func StreamConfig(t testing.TB, jet jetstream.JetStream, name string) jetstream.StreamConfig {
	t.Helper()
	s, err := jet.Stream(t.Context(), name)
	require.NoError(t, err)
	return s.CachedInfo().Config
}

// Count returns the number of messages in a stream, or -1 after an error.
func Count(jet jetstream.JetStream, stream string) int {
	s, err := jet.Stream(context.Background(), stream)
	if err != nil {
		return -1
	}
	return int(s.CachedInfo().State.Msgs)
}

// Messages returns all messages of a stream, in order.
func Messages(t testing.TB, jet jetstream.JetStream, stream string) []*jetstream.RawStreamMsg {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	defer cancel()
	s, err := jet.Stream(ctx, stream)
	require.NoError(t, err)
	var msgs []*jetstream.RawStreamMsg
	state := s.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		msg, err := s.GetMsg(ctx, seq)
		require.NoError(t, err)
		msgs = append(msgs, msg)
	}
	return msgs
}

// OnDisk reports whether a file below dir contains a text.
func OnDisk(t testing.TB, dir, text string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		found = found || bytes.Contains(data, []byte(text))
		return err
	})
	require.NoError(t, err)
	return found
}
