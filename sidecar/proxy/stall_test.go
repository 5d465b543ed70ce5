package proxy_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	client "assay/clients/go"
	"assay/sidecar/proxy"
)

// silentService accepts live sessions and reports their progress, but while it is stalled
// it scores nothing.
type silentService struct {
	*httptest.Server
	stalled atomic.Bool
}

func newSilentService(t *testing.T) *silentService {
	t.Helper()
	s := &silentService{}
	s.stalled.Store(true)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			fmt.Fprint(w, `{"status":"ready"}`)
			return
		}
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		w.Header().Set("Connection", "close")
		lines := bufio.NewScanner(r.Body)
		bytes := 0
		for lines.Scan() {
			var m struct{ Text string }
			_ = json.Unmarshal(lines.Bytes(), &m)
			if bytes += len(m.Text); m.Text != "" && s.stalled.Load() {
				if strings.HasPrefix(m.Text, "Is it scored") {
					return // so that Ready need not wait
				}
				continue
			}
			fmt.Fprintf(w, "{\"progress\":{\"bytes\":%d}}\n", bytes)
			_ = control.Flush()
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *silentService) guard(t *testing.T, timeout time.Duration) *proxy.Remote {
	t.Helper()
	connection, err := client.New(s.URL)
	require.NoError(t, err)
	t.Cleanup(connection.Close)
	return proxy.NewRemote(connection, "", timeout)
}

// A service that stops to score is noticed while the response is written: the upstream
// completes it only then.
func TestServiceStalls(t *testing.T) {
	for _, c := range []struct {
		name   string
		mode   proxy.Mode
		open   bool
		policy string
		want   string // text that the client gets
		code   string // of the error
	}{
		{"observe", proxy.Observe, false, "observe", "Fine. Really. The end. ", ""},
		{"closed", proxy.Hold, false, "closed", "", "guard_failed"},
		{"open", proxy.Redact, true, "open", "Fine. Really. The end. ", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			failed := func() bool {
				n, err := testutil.GatherAndCount(registry, "assay_proxy_failures_total")
				return err == nil && n == 1
			}
			service := newSilentService(t)
			guard := service.guard(t, 50*time.Millisecond)
			require.NoError(t, guard.Ready(t.Context()))
			upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				content := func(text string) string { return chatChunk(0, object{"content": text}, nil) }
				script(content("Fine. "), content("Really. "))(w, r)
				for start := time.Now(); !failed() && time.Since(start) < time.Minute; {
					<-time.After(time.Millisecond)
				}
				script(content("The end. "), chatChunk(0, object{}, "stop"), doneEvent)(w, r)
			}))
			t.Cleanup(upstream.Close)
			config := proxy.DefaultConfig()
			config.Mode, config.FailOpen, config.VerdictTimeout = c.mode, c.open, time.Minute
			var err error
			config.Upstream, err = url.Parse(upstream.URL)
			require.NoError(t, err)
			var log strings.Builder
			p, err := proxy.New(config, guard, zerolog.New(&log), registry)
			require.NoError(t, err)
			server := httptest.NewServer(p)
			t.Cleanup(func() { server.Close(); p.Close(); http.DefaultClient.CloseIdleConnections() })

			_, body := (&served{url: server.URL}).post(t, "/v1/chat/completions", chatRequest)
			chunks, done := events(t, body)
			require.True(t, done)
			texts, _ := choiceTexts(t, chunks, "content")
			require.Equal(t, c.want, texts[0])
			if c.code != "" {
				require.Equal(t, c.code, chunks[len(chunks)-1]["error"].(object)["code"])
			} else {
				require.Nil(t, report(t, chunks)["compliant"])
			}
			require.True(t, failed())
			server.Close() // the log is complete
			require.Contains(t, log.String(), "has scored none of it for --verdict-timeout")
			require.Contains(t, log.String(), `"policy":"`+c.policy+`"`)

			// The service is asked to score a sentence until it does.
			require.ErrorContains(t, guard.Ready(t.Context()), "has scored none of it")
			service.stalled.Store(false)
			require.NoError(t, guard.Ready(t.Context()))
			service.stalled.Store(true)
			require.NoError(t, guard.Ready(t.Context()), "it is not asked again")
		})
	}
}
