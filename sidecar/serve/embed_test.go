package serve_test

import (
	"net"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/sidecar/processtest"
	"assay/sidecar/serve"
)

// embeddedConfig is that of a service in this process, without NATS.
func embeddedConfig(t *testing.T) serve.Config {
	t.Helper()
	cfg := serve.DefaultConfig()
	cfg.Listen, cfg.NATS = "127.0.0.1:0", false
	cfg.Model.Model, cfg.Model.Threads = processtest.TinyModel(t, nil), 1
	return cfg
}

func TestServicesShareAProcess(t *testing.T) {
	first, err := serve.New(embeddedConfig(t), zerolog.Nop())
	require.NoError(t, err)
	second, err := serve.New(embeddedConfig(t), zerolog.Nop())
	require.NoError(t, err)
	for _, s := range []*serve.Service{first, second} {
		s.Start()
		require.NoError(t, s.Ready(t.Context()))
	}
	require.NotEqual(t, first.URL(), second.URL())
	version, _, device := second.Model()
	require.Equal(t, "tiny-1", version)
	require.Equal(t, "cpu", device)
	require.NoError(t, first.Shutdown())
	processtest.Post(t, second.URL(), `{"responses":[{"response":"Still here."}]}`)
	require.NoError(t, second.Shutdown())
	require.NoError(t, second.Wait())
}

func TestShutdownBeforeReady(t *testing.T) {
	s, err := serve.New(embeddedConfig(t), zerolog.Nop())
	require.NoError(t, err)
	s.Start()
	require.NoError(t, s.Shutdown())
	require.NoError(t, s.Wait())
}

// A service that was never started releases its listeners.
func TestShutdownBeforeStart(t *testing.T) {
	cfg := embeddedConfig(t)
	s, err := serve.New(cfg, zerolog.Nop())
	require.NoError(t, err)
	_, err = serve.New(withListen(cfg, s), zerolog.Nop())
	require.ErrorContains(t, err, "--listen: ")
	require.NoError(t, s.Shutdown())
	listener, err := net.Listen("tcp", withListen(cfg, s).Listen)
	require.NoError(t, err)
	require.NoError(t, listener.Close())
}

// withListen is cfg at the address of another service.
func withListen(cfg serve.Config, s *serve.Service) serve.Config {
	cfg.Listen = s.URL()[len("http://"):]
	return cfg
}

func TestReadyReturnsTheErrorOfAFailedStart(t *testing.T) {
	cfg := embeddedConfig(t)
	cfg.Pin = "another"
	s, err := serve.New(cfg, zerolog.Nop())
	require.NoError(t, err)
	s.Start()
	require.ErrorContains(t, s.Ready(t.Context()), "--pin another")
	require.ErrorContains(t, s.Wait(), "--pin another")
	require.Error(t, s.Shutdown())
}
