package queue

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue/embedded"
	"assay/queue/internal/jstest"
)

// syncModes are when an embedded server syncs.
var syncModes = []struct {
	name     string
	interval time.Duration
}{{"always", 0}, {"interval", embedded.RelaxedSync}}

// BenchmarkResponses measures responses of 2 kB from publish to acknowledged
// reward, with a scorer that costs nothing: the upper bound that NATS sets.
func BenchmarkResponses(b *testing.B) {
	for _, sync := range syncModes {
		b.Run("sync="+sync.name, func(b *testing.B) { benchmarkResponses(b, sync.interval) })
	}
}

func benchmarkResponses(b *testing.B, sync time.Duration) {
	cfg := testConfig(b)
	cfg.Server.SyncInterval = sync
	q := startQueue(b, cfg, scorerFunc(good))
	body := []byte(item(strings.Repeat("A sentence. ", 170)))
	js, err := jetstream.New(q.nc, jetstream.WithPublishAsyncMaxPending(1000))
	require.NoError(b, err)
	b.ResetTimer()
	for i := range b.N {
		_, err := js.PublishAsync(SubjectResponses+".bench", body, jetstream.WithMsgID(fmt.Sprint(b.N, "-", i)), jetstream.WithStallWait(time.Minute))
		require.NoError(b, err)
	}
	<-js.PublishAsyncComplete()
	for jstest.Count(q.js, StreamResponses) > 0 {
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
