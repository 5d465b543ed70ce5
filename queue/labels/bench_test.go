package labels_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/queue/embedded"
	"assay/queue/labels"
	"assay/queue/labels/labelstest"
	"assay/queue/queuetest"
)

// BenchmarkLabels measures labels of 1 kB from the request to the receipt: by
// sync mode of the server, items per request, requests in flight, and storage: in
// atomic batches, or one message per label, as with a server that has no batches or
// does not always sync.
func BenchmarkLabels(b *testing.B) {
	for _, sync := range []struct {
		name     string
		interval time.Duration
	}{{"always", 0}, {"10s", embedded.RelaxedSync}} {
		for _, items := range []int{1, 10, 100, 1000} {
			for _, senders := range []int{1, 16} {
				for _, stored := range []string{"each", "batches"} {
					if stored == "batches" && sync.interval > 0 {
						continue
					}
					b.Run(fmt.Sprintf("sync=%s/items=%d/senders=%d/stored=%s", sync.name, items, senders, stored), func(b *testing.B) {
						cfg := queuetest.Config(b)
						cfg.Server.SyncInterval = sync.interval
						f := queuetest.Open(b, cfg).Labels()
						if stored == "each" {
							f.DisableBatches()
						}
						benchmarkLabels(b, f, items, senders)
					})
				}
			}
		}
	}
}

func benchmarkLabels(b *testing.B, f *labels.Log, items, senders int) {
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
				bags := labelstest.Some(first, min(items, b.N-first))
				for i := range bags {
					bags[i].Response = text
				}
				receipt, err := f.Append(b.Context(), labelstest.BatchOf(bags...), "")
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
