package dedup

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/jstest"
)

// BenchmarkRebuild measures the rebuild after a long downtime.
func BenchmarkRebuild(b *testing.B) {
	nc, jet := jstest.Connect(b, &server.Options{})
	_, err := jet.CreateStream(b.Context(), jetstream.StreamConfig{Name: "REWARDS", Subjects: []string{"rewards.>"}})
	require.NoError(b, err)
	const rewards = 50_000
	async, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(1000))
	require.NoError(b, err)
	for i := range rewards {
		_, err := async.PublishMsgAsync(reward(fmt.Sprint("bench ", i), i+1), jetstream.WithStallWait(time.Minute))
		require.NoError(b, err)
	}
	<-async.PublishAsyncComplete()
	b.ResetTimer()
	for range b.N {
		x := New(jet, nil, "REWARDS")
		require.NoError(b, x.Rebuild(b.Context(), 1))
		require.Len(b, x.completed, rewards)
	}
	b.ReportMetric(float64(rewards)*float64(b.N)/b.Elapsed().Seconds(), "rewards/s")
	b.StopTimer()
}
