package queue

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/jstest"
	"assay/queue/labels"
	"assay/queue/registry"
)

func startServer(t testing.TB, cfg ServerConfig) *Server {
	t.Helper()
	s, err := StartEmbedded(cfg, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Shutdown()) })
	return s
}

func address(s *Server) string { return strings.TrimPrefix(s.URL(), "nats://") }

func TestPortInUse(t *testing.T) {
	t.Parallel()
	first := startServer(t, ServerConfig{Listen: "127.0.0.1:-1", DataDir: t.TempDir()})
	dir := t.TempDir()
	_, err := StartEmbedded(ServerConfig{Listen: address(first), DataDir: dir}, zerolog.Nop())
	require.ErrorIs(t, err, ErrListen)
	require.ErrorContains(t, err, "Listen: "+address(first))
	startServer(t, ServerConfig{Listen: "127.0.0.1:0", DataDir: dir}) // the directory is unlocked
}

func TestLockedDataDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startServer(t, ServerConfig{Listen: "127.0.0.1:0", DataDir: dir})
	_, err := StartEmbedded(ServerConfig{Listen: "127.0.0.1:0", DataDir: dir}, zerolog.Nop())
	require.ErrorIs(t, err, ErrDataDirLocked)
	require.ErrorContains(t, err, dir)
	require.NoError(t, first.Shutdown())
	startServer(t, ServerConfig{Listen: "127.0.0.1:0", DataDir: dir})
}

func TestBadServerSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, tc := range map[string]struct {
		cfg  ServerConfig
		says string
	}{
		"no directory":   {ServerConfig{}, "DataDir"},
		"a file":         {ServerConfig{DataDir: file}, "DataDir"},
		"no port":        {ServerConfig{DataDir: t.TempDir(), Listen: "127.0.0.1"}, "Listen: 127.0.0.1"},
		"port a word":    {ServerConfig{DataDir: t.TempDir(), Listen: "127.0.0.1:http"}, "between 0 and 65535"},
		"port too large": {ServerConfig{DataDir: t.TempDir(), Listen: "127.0.0.1:70000"}, "between 0 and 65535"},
		"remote host":    {ServerConfig{DataDir: t.TempDir(), Listen: "192.0.2.1:0"}, "cannot listen"},
		"payload":        {ServerConfig{DataDir: t.TempDir(), MaxPayload: 1 << 30}, "64 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := StartEmbedded(tc.cfg, zerolog.Nop())
			require.ErrorContains(t, err, tc.says)
		})
	}
}

func TestTokenOfTheEmbeddedServer(t *testing.T) {
	t.Parallel()
	s := startServer(t, ServerConfig{Listen: "127.0.0.1:0", DataDir: t.TempDir(), Token: "secret"})
	_, err := nats.Connect(s.URL())
	require.ErrorIs(t, err, nats.ErrAuthorization)
	_, err = Connect(t.Context(), ConnConfig{URL: s.URL(), Token: "wrong"}, zerolog.Nop())
	require.ErrorIs(t, err, nats.ErrAuthorization, "immediately, without retries")
	nc, err := Connect(t.Context(), ConnConfig{URL: s.URL(), Token: "secret"}, zerolog.Nop())
	require.NoError(t, err)
	nc.Close()
	var log bytes.Buffer
	own, err := s.Connect(t.Context(), zerolog.New(&log))
	require.NoError(t, err)
	own.Close()
	require.Contains(t, log.String(), `"server":"in this process"`, "not an address that was not dialed")
}

// A token that changes is read again for each connection.
func TestTokenChangesAtARestart(t *testing.T) {
	t.Parallel()
	var token atomic.Pointer[string]
	change := func(to string) { token.Store(&to) }
	change("first")
	s, err := StartEmbedded(ServerConfig{Listen: "127.0.0.1:-1", DataDir: t.TempDir(), Token: *token.Load()}, zerolog.Nop())
	require.NoError(t, err)
	nc, err := Connect(t.Context(), ConnConfig{URL: s.URL(), ReadToken: func() string { return *token.Load() }}, zerolog.Nop())
	require.NoError(t, err)
	defer nc.Close()
	at := address(s)
	require.NoError(t, s.Shutdown())
	change("second")
	startServer(t, ServerConfig{Listen: at, DataDir: t.TempDir(), Token: *token.Load()})
	require.Eventually(t, nc.IsConnected, 20*time.Second, 10*time.Millisecond)
}

// An embedded server syncs before it acknowledges, unless it is configured otherwise.
func TestTheDefaultIsToSyncAlways(t *testing.T) {
	t.Parallel()
	always := startServer(t, ServerConfig{Listen: "127.0.0.1:0", DataDir: t.TempDir()})
	require.True(t, always.running.Load().JetStreamConfig().SyncAlways)
	relaxed := startServer(t, ServerConfig{Listen: "127.0.0.1:0", DataDir: t.TempDir(), SyncInterval: RelaxedSync})
	require.False(t, relaxed.running.Load().JetStreamConfig().SyncAlways)
	require.Equal(t, RelaxedSync, relaxed.running.Load().JetStreamConfig().SyncInterval)

	cfg := testConfig(t)
	cfg.Streams.KeepScored = time.Hour
	q := openQueue(t, cfg)
	for stream, mode := range map[string]jetstream.PersistModeType{
		StreamResponses: jetstream.DefaultPersistMode, StreamRewards: jetstream.DefaultPersistMode, StreamDead: jetstream.DefaultPersistMode,
		labels.StreamFeedback: jetstream.DefaultPersistMode, registry.StreamEvents: jetstream.DefaultPersistMode,
		registry.StreamState: jetstream.DefaultPersistMode, registry.StreamModels: jetstream.DefaultPersistMode,
		labels.StreamScored: jetstream.AsyncPersistMode,
	} {
		require.Equal(t, mode, jstest.StreamConfig(t, q.js, stream).PersistMode, stream)
	}
}

func TestDamagedStoreIsAnErrorNotACrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nats"), []byte("not a directory"), 0o600))
	_, err := Open(context.Background(), Config{Server: ServerConfig{Listen: "127.0.0.1:0", DataDir: dir}}, zerolog.Nop(), prometheus.NewRegistry())
	require.ErrorContains(t, err, "embedded NATS server")
}
