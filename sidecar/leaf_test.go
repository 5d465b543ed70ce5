package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/queue/queuetest"
	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
)

// A service whose NATS server is a leaf node, with a JetStream of its own, works for the hub: it takes the hub's
// responses, answers its requests, and follows its current version.
func TestServiceOnALeafNode(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster, which takes a quarter of a minute")
	}
	cluster := queuetest.StartCluster(t, 3)
	leaf := cluster.StartLeaf(t, "edge")
	model := tinyModel(t, nil)
	far := serve(t, model, t.TempDir(), "--nats-url", leaf.URL(), "--nats-jetstream-domain", queuetest.HubDomain,
		"--stream-replicas", "3", "--log-format", "json")
	hub, err := nats.Connect(cluster.URL())
	require.NoError(t, err)
	defer hub.Close()
	js, err := jetstream.New(hub)
	require.NoError(t, err)

	publish(t, js, "edge", "r1", `{"id":"r1","response":"Have a good trip."}`)
	reward := nextReward(t, js, "edge")
	require.Equal(t, "tiny-1", reward.Headers().Get(queue.HeaderModelVersion))
	text := "Have a good trip."
	answer, err := queue.NewClient(hub).Score(t.Context(), rewardmodel.Request{Responses: []rewardmodel.Item{{ID: "r2", Response: &text}}})
	require.NoError(t, err)
	require.Equal(t, "r2", answer.Results[0].ID)

	register(t, cluster, "tiny-2")
	askFor(t, far, "/v1/models/tiny-2/promote")
	awaitVersion(t, far.ready.HTTP, "tiny-2")
	far.signal(t)
	require.Zero(t, far.wait(t), far.output())
}

// register stores another version, of which the fleet may make use.
func register(t *testing.T, cluster *queuetest.Cluster, version string) {
	t.Helper()
	dir := tinyModel(t, func(_ *checkpoint.Config, m *checkpoint.Manifest) { m.Version = version })
	q := queuetest.Open(t, queue.Config{Conn: queue.ConnConfig{URL: cluster.URL()}, Streams: queue.StreamsConfig{Replicas: 3}})
	registry, err := q.OpenRegistry(t.Context())
	require.NoError(t, err)
	m, err := describe(dir)
	require.NoError(t, err)
	m.Files, err = registry.Upload(t.Context(), version, dir)
	require.NoError(t, err)
	require.NoError(t, registry.Register(t.Context(), m))
}

// askFor posts to a service until it can do what it is asked for.
func askFor(t *testing.T, p *process, path string) {
	t.Helper()
	for began := time.Now(); ; <-time.After(100 * time.Millisecond) {
		response, err := http.Post(p.ready.HTTP+path, "application/json", strings.NewReader("{}"))
		require.NoError(t, err)
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return
		}
		// A stream may have no leader right now.
		require.Contains(t, []int{http.StatusServiceUnavailable, http.StatusGatewayTimeout}, response.StatusCode)
		require.Less(t, time.Since(began), patience)
	}
}
