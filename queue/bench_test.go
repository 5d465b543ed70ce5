package queue

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// syncModes are when an embedded server syncs.
var syncModes = []struct {
	name     string
	interval time.Duration
}{{"always", 0}, {"interval", RelaxedSync}}

// BenchmarkResponses measures responses of 2 kB from publish to acknowledged
// reward, with a scorer that costs nothing: the ceiling that NATS sets.
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

// BenchmarkLabels measures labels of 1 kB from the request to the receipt: by
// when the server syncs, by how many items a request has and how many requests
// are in flight, and by how they are stored: in atomic batches, or by a message
// each, as with a server that has no batches or does not sync always.
func BenchmarkLabels(b *testing.B) {
	for _, sync := range syncModes {
		for _, items := range []int{1, 10, 100, 1000} {
			for _, senders := range []int{1, 16} {
				for _, stored := range []string{"each", "batches"} {
					if stored == "batches" && sync.interval > 0 {
						continue
					}
					b.Run(fmt.Sprintf("sync=%s/items=%d/senders=%d/stored=%s", sync.name, items, senders, stored), func(b *testing.B) {
						cfg := testConfig(b)
						cfg.Server.SyncInterval = sync.interval
						f := openQueue(b, cfg).Feedback()
						if stored == "each" {
							f.commits = nil
						}
						benchmarkLabels(b, f, items, senders)
					})
				}
			}
		}
	}
}

func benchmarkLabels(b *testing.B, f *Feedback, items, senders int) {
	text := strings.Repeat("A sentence. ", 1000/12)
	var next atomic.Int64
	b.ResetTimer()
	var sending sync.WaitGroup
	for range senders {
		sending.Go(func() {
			for {
				first := int(next.Add(int64(items))) - items
				if first >= b.N {
					return
				}
				bags := some(first, min(items, b.N-first))
				for i := range bags {
					bags[i].Response = text
				}
				receipt, err := f.Append(b.Context(), batchOf(bags...), "")
				if err != nil || receipt.Accepted != len(bags) {
					b.Errorf("%+v, %v", receipt, err)
					return
				}
			}
		})
	}
	sending.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "labels/s")
	b.StopTimer()
}
