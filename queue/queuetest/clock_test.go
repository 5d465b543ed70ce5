package queuetest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/queue/queuetest"
)

// Responses that a process had when it died are scored by another one, although the clocks of the
// servers are set back in between: before another process starts, or while it runs.
func TestClockThatIsSetBack(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster, which takes a quarter of a minute")
	}
	const nodes, ahead = 3, 2 * time.Hour
	c := queuetest.StartCluster(t, nodes)
	ctx, cancel := context.WithTimeout(t.Context(), electionTimeout)
	defer cancel()
	cfg := queue.Config{Conn: queue.ConnConfig{URL: c.URL()}, Streams: queue.StreamsConfig{Replicas: nodes}, Worker: queue.WorkerConfig{AckWait: time.Second}}
	setClocks := func(offset time.Duration) {
		for i := range nodes {
			c.SetClock(i, offset)
		}
	}
	nc, err := nats.Connect(c.URL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	left := func() uint64 {
		stream, err := js.Stream(ctx, queue.StreamResponses)
		require.NoError(t, err)
		return stream.CachedInfo().State.Msgs
	}
	// take publishes responses, and takes some of them as a process that dies.
	n := 0
	take := func() {
		for taken := 0; taken == 0; {
			for range 20 {
				n++
				_, err := js.Publish(ctx, queue.SubjectResponses+".x", []byte(`{"response":"Hello."}`), jetstream.WithMsgID(fmt.Sprint(n)))
				require.NoError(t, err)
			}
			consumer, err := js.Consumer(ctx, queue.StreamResponses, queue.ConsumerScorer)
			require.NoError(t, err)
			batch, err := consumer.FetchNoWait(20)
			require.NoError(t, err)
			for range batch.Messages() {
				taken++
			}
		}
	}
	first := queuetest.Open(t, cfg)
	require.NoError(t, first.Start(ctx, echo{}))
	require.NoError(t, first.Drain(ctx)) // the consumer exists, and nobody pulls from it
	setClocks(ahead)
	take()
	setClocks(0)
	require.NotZero(t, left())
	second := queuetest.Open(t, cfg)
	require.NoError(t, second.Start(ctx, echo{}))
	require.Eventually(t, func() bool { return left() == 0 }, electionTimeout, 20*time.Millisecond, "before the start")

	setClocks(ahead)
	take()
	setClocks(0)
	require.Eventually(t, func() bool { return left() == 0 }, electionTimeout, 20*time.Millisecond, "while it runs")
	stream, err := js.Stream(ctx, queue.StreamRewards)
	require.NoError(t, err)
	require.EqualValues(t, n, stream.CachedInfo().State.Msgs)
}
