package queuetest_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/queue/queuetest"
	"assay/rewardmodel"
)

func TestMain(m *testing.M) { queuetest.Main(m) }

type echo struct{}

func (echo) Score(_ context.Context, req rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	return rewardmodel.ScoreResponse{Results: []rewardmodel.Result{{ID: req.Responses[0].ID}}}, nil
}

func TestStart(t *testing.T) {
	q := queuetest.Start(t, echo{})
	require.NoError(t, q.Ready(t.Context()))
	nc := queuetest.Connect(t, q)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	rewards, err := js.OrderedConsumer(t.Context(), queue.StreamRewards, jetstream.OrderedConsumerConfig{})
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), queue.SubjectResponses+".job", []byte(`{"id":"a","response":"Hello."}`))
	require.NoError(t, err)
	msg, err := rewards.Next(jetstream.FetchMaxWait(20 * time.Second))
	require.NoError(t, err)
	require.Equal(t, queue.SubjectRewards+".job", msg.Subject())
}
