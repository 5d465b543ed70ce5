package serve_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/queue/queuetest"
	"assay/rewardmodel"
	"assay/sidecar/processtest"
)

// A service whose NATS server is a leaf node with its own JetStream works for the hub: it scores the responses and
// requests of the hub, and follows its current version.
func TestServiceOnALeafNode(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster, which takes a quarter of a minute")
	}
	cluster := queuetest.StartCluster(t, 3)
	leaf := cluster.StartLeaf(t, "edge")
	model := processtest.TinyModel(t, nil)
	far := processtest.Serve(t, model, t.TempDir(), "--nats-url", leaf.URL(), "--nats-jetstream-domain", queuetest.HubDomain,
		"--stream-replicas", "3", "--log-format", "json")
	hub, err := nats.Connect(cluster.URL())
	require.NoError(t, err)
	defer hub.Close()
	js, err := jetstream.New(hub)
	require.NoError(t, err)

	processtest.Publish(t, js, "edge", "r1", `{"id":"r1","response":"Have a good trip."}`)
	reward := processtest.NextReward(t, js, "edge")
	require.Equal(t, "tiny-1", reward.Headers().Get(queue.HeaderModelVersion))
	text := "Have a good trip."
	answer, err := queue.NewClient(hub).Score(t.Context(), rewardmodel.Request{Responses: []rewardmodel.Item{{ID: "r2", Response: &text}}})
	require.NoError(t, err)
	require.Equal(t, "r2", answer.Results[0].ID)

	processtest.Register(t, cluster, "tiny-2")
	processtest.PostUntilOK(t, far, "/v1/models/tiny-2/promote")
	processtest.AwaitVersion(t, far.Ready.HTTP, "tiny-2")
	far.Signal(t)
	require.Zero(t, far.Wait(t), far.Output())
}
