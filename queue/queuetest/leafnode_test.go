package queuetest_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/queue/queuetest"
	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/retrain"
)

// A replica on a leaf node works with the streams of the hub, with or without a
// JetStream of the leaf: it scores responses and requests, stores labels and
// versions, and follows the current version.
func TestReplicaOnALeafNode(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster and leaf nodes, which takes a quarter of a minute")
	}
	c := queuetest.StartCluster(t, 3)
	hub, err := nats.Connect(c.URL())
	require.NoError(t, err)
	defer hub.Close()
	js, err := jetstream.New(hub)
	require.NoError(t, err)
	for _, tc := range []struct{ name, leaf, domain string }{
		{"without a JetStream", "", queuetest.HubDomain},
		{"with its own", "edge", queuetest.HubDomain},
	} {
		t.Run(tc.name, func(t *testing.T) {
			leaf := c.StartLeaf(t, tc.leaf)
			q := queuetest.Open(t, queue.Config{
				Conn:    queue.ConnConfig{URL: leaf.URL(), Domain: tc.domain},
				Streams: queue.StreamsConfig{Replicas: 3},
			})
			require.NoError(t, q.Start(t.Context(), echo{}))
			require.NoError(t, q.Ready(t.Context()))

			subject := "." + nats.NewInbox()[len("_INBOX."):]
			_, err := js.Publish(t.Context(), queue.SubjectResponses+subject, []byte(`{"id":"a","response":"Hello."}`))
			require.NoError(t, err)
			rewards, err := js.OrderedConsumer(t.Context(), queue.StreamRewards, jetstream.OrderedConsumerConfig{
				FilterSubjects: []string{queue.SubjectRewards + subject}})
			require.NoError(t, err)
			_, err = rewards.Next(jetstream.FetchMaxWait(20 * time.Second))
			require.NoError(t, err)
			stream, err := js.Stream(t.Context(), queue.StreamResponses)
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				info, err := stream.Info(t.Context())
				return err == nil && info.State.Msgs == 0
			}, electionTimeout, 20*time.Millisecond, "it is acknowledged")

			text := "Hello."
			answer, err := queue.NewClient(hub).Score(t.Context(), rewardmodel.Request{Responses: []rewardmodel.Item{{ID: "b", Response: &text}}})
			require.NoError(t, err)
			require.Equal(t, "b", answer.Results[0].ID)
			receipt, err := q.Labels().Append(t.Context(), someLabels(0, 1, bag.Violation), "")
			require.NoError(t, err)
			require.Equal(t, 1, receipt.Accepted+receipt.Duplicates)
			require.NoError(t, q.Labels().CaughtUp(t.Context()))

			r, err := q.OpenRegistry(t.Context())
			require.NoError(t, err)
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "model.safetensors"), make([]byte, 2<<20), 0o600))
			files, err := r.Upload(t.Context(), tc.leaf+tc.domain, dir)
			require.NoError(t, err)
			require.NoError(t, r.Download(t.Context(), retrain.Model{Version: tc.leaf + tc.domain, Files: files}, filepath.Join(t.TempDir(), "model")))
			current, err := r.Current(t.Context())
			require.NoError(t, err)
			current.Version = subject
			current, err = r.SetCurrent(t.Context(), current)
			require.NoError(t, err)
			require.Equal(t, current, <-r.WatchCurrent(t.Context()))
			require.NoError(t, r.Publish(t.Context(), retrain.Event{Kind: retrain.EventPromoted, Version: subject}))
		})
	}
}
