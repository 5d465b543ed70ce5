package processtest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/queue/queuetest"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/retrain"
)

// Register stores another version in the registry of the fleet.
func Register(t *testing.T, cluster *queuetest.Cluster, version string) {
	t.Helper()
	RegisterModel(t, cluster.URL(), 3, TinyModel(t, func(_ *checkpoint.Config, m *checkpoint.Manifest) { m.Version = version }))
}

// RegisterModel stores the model in a directory in the registry on NATS servers, whose streams have a number of replicas.
func RegisterModel(t *testing.T, url string, replicas int, dir string) {
	t.Helper()
	cfg := queue.Config{Conn: queue.ConnConfig{URL: url}, Streams: queue.StreamsConfig{Replicas: replicas}}
	q, err := queue.Open(t.Context(), cfg, zerolog.Nop(), prometheus.NewRegistry())
	require.NoError(t, err)
	defer queuetest.Close(t, q) // before the servers end
	registry, err := q.OpenRegistry(t.Context())
	require.NoError(t, err)
	c, err := checkpoint.Open(dir)
	require.NoError(t, err)
	defer c.Close()
	m := retrain.Model{
		Version: c.Manifest.Version, Created: c.Manifest.Created, Method: c.Manifest.Method,
		Threshold: c.Manifest.Threshold, Labels: c.Config.Labels,
	}
	m.Files, err = registry.Upload(t.Context(), m.Version, dir)
	require.NoError(t, err)
	require.NoError(t, registry.Register(t.Context(), m))
}

// PostUntilOK posts to a service until the request succeeds.
func PostUntilOK(t *testing.T, p *Process, path string) {
	t.Helper()
	for began := time.Now(); ; <-time.After(100 * time.Millisecond) {
		response, err := http.Post(p.Ready.HTTP+path, "application/json", strings.NewReader("{}"))
		require.NoError(t, err)
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return
		}
		// A stream may have no leader right now.
		require.Contains(t, []int{http.StatusServiceUnavailable, http.StatusGatewayTimeout}, response.StatusCode)
		require.Less(t, time.Since(began), Timeout)
	}
}
