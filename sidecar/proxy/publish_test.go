package proxy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"assay/sidecar/proxy"
)

// dropped are the verdicts that were not published.
func (s *served) dropped(t *testing.T) float64 {
	t.Helper()
	families, err := s.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "assay_proxy_verdicts_dropped_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatal("no counter")
	return 0
}

func TestPublish(t *testing.T) {
	body := func(text string) string {
		return fmt.Sprintf(`{"choices":[{"index":0,"message":{"content":%q},"finish_reason":"stop"}]}`, text)
	}
	events := script(data(object{"choices": []object{{"index": 0, "delta": object{"content": "One. " + marker + ". "}}}}), "data: [DONE]\n\n")
	for name, test := range map[string]struct {
		mode     proxy.Mode
		upstream http.HandlerFunc
		verdict  string
	}{
		"observe":        {proxy.Observe, whole(body("One. Two. ")), "compliant"},
		"observe stream": {proxy.Observe, events, "violating"},
		"hold":           {proxy.Hold, whole(body(marker)), "violating"},
		"stop stream":    {proxy.Stop, events, "violating"},
		"unreadable":     {proxy.Observe, whole("{"), "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			published := make(chan proxy.Publication, 1)
			upstream := func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Request-Id", "r1")
				test.upstream(w, r)
			}
			s := start(t, upstream, func(c *proxy.Config) {
				c.Mode = test.mode
				c.Publish = func(p proxy.Publication) error {
					published <- p
					return nil
				}
			})
			s.post(t, "/v1/chat/completions", `{}`)
			got := <-published
			require.Equal(t, test.verdict, got.Verdict)
			var message struct {
				Time, Endpoint, Mode string
				RequestID            string `json:"request_id"`
				Violation            float64
			}
			require.NoError(t, json.Unmarshal(got.Body, &message))
			require.NotEmpty(t, message.Time)
			require.Equal(t, "chat", message.Endpoint)
			require.Equal(t, "r1", message.RequestID)
			require.Equal(t, string(test.mode), message.Mode)
			require.Equal(t, test.verdict == "violating", message.Violation > 0.5)
		})
	}
}

// A publisher that never returns costs verdicts, not responses: 1,024 wait and one is
// being published.
func TestPublishNeverBlocks(t *testing.T) {
	release := make(chan struct{})
	s := start(t, whole(`{"choices":[{"index":0,"message":{"content":"One. "}}]}`), func(c *proxy.Config) {
		c.Publish = func(proxy.Publication) error {
			<-release
			return errors.New("gone")
		}
	})
	defer close(release)
	for range 1100 {
		response, _ := s.post(t, "/v1/chat/completions", `{}`)
		require.Equal(t, http.StatusOK, response.StatusCode)
	}
	require.InDelta(t, 1100-1024-1, s.dropped(t), 1)
}

func TestPublishCountsErrors(t *testing.T) {
	s := start(t, whole(`{"choices":[{"index":0,"message":{"content":"One. "}}]}`), func(c *proxy.Config) {
		c.Publish = func(proxy.Publication) error { return errors.New("gone") }
	})
	s.post(t, "/v1/chat/completions", `{}`)
	require.Eventually(t, func() bool { return s.dropped(t) == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, 1.0, testutil.ToFloat64(s.counter(t, "assay_proxy_verdicts_total", "observe")))
}
