package embedded

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

func startServer(t testing.TB, cfg Config) *Server {
	t.Helper()
	s, err := Start(cfg, nil, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Shutdown()) })
	return s
}

func address(s *Server) string { return strings.TrimPrefix(s.URL(), "nats://") }

func TestPortInUse(t *testing.T) {
	t.Parallel()
	first := startServer(t, Config{Listen: "127.0.0.1:-1", DataDir: t.TempDir()})
	dir := t.TempDir()
	_, err := Start(Config{Listen: address(first), DataDir: dir}, nil, zerolog.Nop())
	require.ErrorIs(t, err, ErrListen)
	require.ErrorContains(t, err, "Listen: "+address(first))
	startServer(t, Config{Listen: "127.0.0.1:0", DataDir: dir}) // the directory is unlocked
}

func TestLockedDataDir(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startServer(t, Config{Listen: "127.0.0.1:0", DataDir: dir})
	_, err := Start(Config{Listen: "127.0.0.1:0", DataDir: dir}, nil, zerolog.Nop())
	require.ErrorIs(t, err, ErrDataDirLocked)
	require.ErrorContains(t, err, dir)
	require.NoError(t, first.Shutdown())
	startServer(t, Config{Listen: "127.0.0.1:0", DataDir: dir})
}

func TestBadServerSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, tc := range map[string]struct {
		cfg  Config
		says string
	}{
		"no directory":   {Config{}, "DataDir"},
		"a file":         {Config{DataDir: file}, "DataDir"},
		"no port":        {Config{DataDir: t.TempDir(), Listen: "127.0.0.1"}, "Listen: 127.0.0.1"},
		"port a word":    {Config{DataDir: t.TempDir(), Listen: "127.0.0.1:http"}, "between 0 and 65535"},
		"port too large": {Config{DataDir: t.TempDir(), Listen: "127.0.0.1:70000"}, "between 0 and 65535"},
		"remote host":    {Config{DataDir: t.TempDir(), Listen: "192.0.2.1:0"}, "cannot listen"},
		"payload":        {Config{DataDir: t.TempDir(), MaxPayload: 1 << 30}, "64 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Start(tc.cfg, nil, zerolog.Nop())
			require.ErrorContains(t, err, tc.says)
		})
	}
}

// An embedded server syncs before it acknowledges, unless it is configured otherwise.
func TestTheDefaultIsToSyncAlways(t *testing.T) {
	t.Parallel()
	always := startServer(t, Config{Listen: "127.0.0.1:0", DataDir: t.TempDir()})
	require.True(t, always.running.Load().JetStreamConfig().SyncAlways)
	relaxed := startServer(t, Config{Listen: "127.0.0.1:0", DataDir: t.TempDir(), SyncInterval: RelaxedSync})
	require.False(t, relaxed.running.Load().JetStreamConfig().SyncAlways)
	require.Equal(t, RelaxedSync, relaxed.running.Load().JetStreamConfig().SyncInterval)
}

func TestDamagedStoreIsAnErrorNotACrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nats"), []byte("not a directory"), 0o600))
	_, err := Start(Config{Listen: "127.0.0.1:0", DataDir: dir}, nil, zerolog.Nop())
	require.ErrorContains(t, err, "embedded NATS server")
}
