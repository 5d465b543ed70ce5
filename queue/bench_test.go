package queue

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// BenchmarkResponses measures responses of 2 kB from publish to acknowledged
// reward, with a scorer that costs nothing: the ceiling that NATS sets.
func BenchmarkResponses(b *testing.B) {
	q := startQueue(b, testConfig(b), scorerFunc(good))
	body := []byte(item(strings.Repeat("A sentence. ", 170)))
	js, err := jetstream.New(q.nc, jetstream.WithPublishAsyncMaxPending(1000))
	require.NoError(b, err)
	b.ResetTimer()
	for i := range b.N {
		_, err := js.PublishAsync(SubjectResponses+".bench", body, jetstream.WithMsgID(fmt.Sprint(b.N, "-", i)), jetstream.WithStallWait(time.Minute))
		require.NoError(b, err)
	}
	<-js.PublishAsyncComplete()
	for count(b, q, StreamResponses) > 0 {
		runtime.Gosched()
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "responses/s")
	b.StopTimer()
}

// BenchmarkRequests measures requests of one response, 64 at a time.
func BenchmarkRequests(b *testing.B) {
	q := startQueue(b, testConfig(b), scorerFunc(good))
	client := NewClient(q.nc)
	req := request(strings.Repeat("A sentence. ", 170))
	b.SetParallelism(32)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, err := client.Score(b.Context(), req)
			require.NoError(b, err)
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	b.StopTimer()
}

// BenchmarkLedger measures the look-up that a long downtime costs.
func BenchmarkLedger(b *testing.B) {
	q := startQueue(b, testConfig(b), scorerFunc(good))
	const rewards = 50_000
	js, err := jetstream.New(q.nc, jetstream.WithPublishAsyncMaxPending(1000))
	require.NoError(b, err)
	begin := time.Now().Add(-time.Minute)
	for i := range rewards {
		_, err := js.PublishAsync(SubjectRewards+".bench", []byte("{}"), jetstream.WithMsgID(fmt.Sprint("bench ", i)), jetstream.WithStallWait(time.Minute))
		require.NoError(b, err)
	}
	<-js.PublishAsyncComplete()
	b.ResetTimer()
	for range b.N {
		l := newLedger(q.js)
		require.NoError(b, l.rebuild(b.Context(), begin))
		require.Len(b, l.settled, rewards)
	}
	b.ReportMetric(float64(rewards)*float64(b.N)/b.Elapsed().Seconds(), "rewards/s")
	b.StopTimer()
}
