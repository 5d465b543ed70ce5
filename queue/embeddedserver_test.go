package queue

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue/embedded"
	"assay/queue/internal/jstest"
	"assay/queue/labels"
	"assay/queue/registry"
)

func startServer(t testing.TB, cfg embedded.Config) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(cfg, nil, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Shutdown()) })
	return s
}

func TestTokenOfTheEmbeddedServer(t *testing.T) {
	t.Parallel()
	s := startServer(t, embedded.Config{Listen: "127.0.0.1:0", DataDir: t.TempDir(), Token: "secret"})
	_, err := nats.Connect(s.URL())
	require.ErrorIs(t, err, nats.ErrAuthorization)
	_, err = Connect(t.Context(), ConnConfig{URL: s.URL(), Token: "wrong"}, zerolog.Nop())
	require.ErrorIs(t, err, nats.ErrAuthorization, "immediately, without retries")
	nc, err := Connect(t.Context(), ConnConfig{URL: s.URL(), Token: "secret"}, zerolog.Nop())
	require.NoError(t, err)
	nc.Close()
	var log bytes.Buffer
	own, err := ConnConfig{Token: "secret", inProcess: s}.dial(t.Context(), zerolog.New(&log))
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
	s, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:-1", DataDir: t.TempDir(), Token: *token.Load()}, nil, zerolog.Nop())
	require.NoError(t, err)
	nc, err := Connect(t.Context(), ConnConfig{URL: s.URL(), ReadToken: func() string { return *token.Load() }}, zerolog.Nop())
	require.NoError(t, err)
	defer nc.Close()
	at := strings.TrimPrefix(s.URL(), "nats://")
	require.NoError(t, s.Shutdown())
	change("second")
	startServer(t, embedded.Config{Listen: at, DataDir: t.TempDir(), Token: *token.Load()})
	require.Eventually(t, nc.IsConnected, 20*time.Second, 10*time.Millisecond)
}

// Only scored responses are written after their acknowledgement.
func TestPersistModes(t *testing.T) {
	t.Parallel()
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

func TestErrorsNameTheSettingOfTheServer(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), Config{Server: embedded.Config{Listen: "127.0.0.1:http", DataDir: t.TempDir()}}, zerolog.Nop(), prometheus.NewRegistry())
	var setting *SettingError
	require.ErrorAs(t, err, &setting)
	require.Equal(t, "Listen", setting.Field)
	require.ErrorContains(t, err, "NATS setting Listen: 127.0.0.1:http")
}
