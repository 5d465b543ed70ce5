package proxy_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/sidecar/proxy"
)

// BenchmarkChunk measures the time from the write of a chunk by the upstream to its
// arrival at the client, without a proxy and in mode observe. Scoring takes no time here:
// with a model it uses other cores, or competes for the same.
//
//	go test ./sidecar/proxy -run '^$' -bench Chunk
func BenchmarkChunk(b *testing.B) {
	for _, proxied := range []bool{false, true} {
		b.Run(map[bool]string{false: "direct", true: "observe"}[proxied], func(b *testing.B) {
			next, sent := make(chan struct{}), make(chan time.Time, 1)
			upstream := func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for i := 0; ; i++ {
					select {
					case <-next:
					case <-r.Context().Done():
						return
					}
					sent <- time.Now()
					fmt.Fprint(w, chatChunk(0, object{"content": fmt.Sprintf("token%d", i)}, nil))
					if http.NewResponseController(w).Flush() != nil {
						return
					}
				}
			}
			var address string
			if proxied {
				address = start(b, upstream, mode(proxy.Observe)).url
			} else {
				direct := httptest.NewServer(http.HandlerFunc(upstream))
				b.Cleanup(func() { http.DefaultClient.CloseIdleConnections(); direct.Close() })
				address = direct.URL
			}
			go func() { next <- struct{}{} }()
			response, err := http.Post(address+"/v1/chat/completions", "application/json", strings.NewReader(chatRequest)) //nolint:noctx // closing the body ends the request
			require.NoError(b, err)
			defer response.Body.Close()
			lines := bufio.NewReader(response.Body)
			read := func() time.Duration {
				for {
					line, err := lines.ReadString('\n')
					require.NoError(b, err)
					if line == "\n" {
						return time.Since(<-sent)
					}
				}
			}
			read()
			var delays []time.Duration
			for b.Loop() {
				next <- struct{}{}
				delays = append(delays, read())
			}
			slices.Sort(delays)
			at := func(q float64) float64 {
				return float64(delays[int(q*float64(len(delays)-1))].Nanoseconds()) / 1e6
			}
			b.ReportMetric(at(.5), "p50-ms")
			b.ReportMetric(at(.99), "p99-ms")
		})
	}
}
