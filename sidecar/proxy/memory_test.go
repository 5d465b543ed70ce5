package proxy_test

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/rewardmodel/live"
	"assay/sidecar/proxy"
)

// endless is an upstream that sends an event so often, or until the client has disconnected.
func endless(times int, event func(i int) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := 0; i < times && r.Context().Err() == nil; i++ {
			if _, err := io.WriteString(w, event(i)); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, doneEvent)
	}
}

// heap is the memory in use while a response is read, at most.
func heap(t *testing.T, s *served, path string) (most uint64) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, strings.NewReader(chatRequest))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	buffer := make([]byte, 4<<20)
	for err == nil {
		_, err = io.ReadFull(response.Body, buffer)
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		most = max(most, stats.HeapAlloc)
	}
	return most
}

// A text without an end takes no memory once it is released: neither what was scored nor,
// after a failure, what was not.
func TestEndlessTextIsNotKept(t *testing.T) {
	if testing.Short() {
		t.Skip("sends 20 MB")
	}
	piece := strings.Repeat("x", 64<<10)
	s := start(t, endless(300, func(int) string { return chatChunk(0, object{"content": piece}, nil) }), func(c *proxy.Config) {
		c.Mode, c.FailOpen, c.MaxHeld = proxy.Hold, true, 100<<10
	})
	s.guard.fail = failsAt("x")
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	require.Less(t, heap(t, s, "/v1/chat/completions"), before.HeapAlloc+16<<20)
}

// What is kept of a response, since its last event repeats it, is bounded by --max-body.
func TestEndlessResponse(t *testing.T) {
	piece := strings.Repeat("x", 1000)
	for name, event := range map[string]func(i int) string{
		"text": func(int) string {
			return data(object{"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": piece})
		},
		"texts": func(i int) string {
			return data(object{"type": "response.output_text.done", "output_index": i, "content_index": 0, "text": piece})
		},
		"tool calls": func(i int) string {
			return data(object{"type": "response.output_item.done", "output_index": i, "item": object{"type": "function_call", "arguments": piece}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, endless(1000, event), func(c *proxy.Config) { c.Mode, c.FailOpen, c.MaxBody = proxy.Hold, true, 100_000 })
			s.guard.fail = failsAt("x")
			_, body := s.post(t, "/v1/responses", `{"stream":true}`)
			require.Contains(t, body, "upstream_unreadable")
			require.Less(t, len(body), 300_000)
		})
	}
}

// A response with endlessly many choices ends.
func TestEndlessChoices(t *testing.T) {
	for code, delta := range map[string]object{"guard_failed": {"content": "Hm"}, "upstream_unreadable": {"role": "assistant"}} {
		s := start(t, endless(10_000, func(i int) string { return chatChunk(i, delta, nil) }), mode(proxy.Hold))
		_, body := s.post(t, "/v1/chat/completions", chatRequest)
		require.Contains(t, body, code)
	}
	s := start(t, endless(10_000, func(i int) string { return chatChunk(i, object{"content": "Hm"}, nil) }), nil)
	_, body := s.post(t, "/v1/chat/completions", chatRequest)
	require.Equal(t, 10_001, strings.Count(body, "chat.completion.chunk"), "observe forwards everything")
	chunks, _ := events(t, body)
	require.Nil(t, report(t, chunks)["compliant"])
}

// The texts that are being scored are charged to the memory of the guard.
func TestLocalMemory(t *testing.T) {
	scorer, err := rewardmodel.NewScorer(rewardmodel.ScorerConfig{Version: "v1"}, markerModel{}, markerModel{}, nil)
	require.NoError(t, err)
	defer scorer.Close()
	sessions := live.New(oneScorer{scorer}, live.Limits{})
	defer sessions.Close()
	memory, err := rewardmodel.NewMemory(1<<20, nil)
	require.NoError(t, err)
	guard := proxy.NewLocal(sessions, rewardmodel.ReasoningSkip, memory)
	for range 2 { // the second one gets what the first one had
		session, err := guard.Open(t.Context(), "", func(proxy.Event) {})
		require.NoError(t, err)
		require.NoError(t, session.Feed(t.Context(), strings.Repeat("word ", 1000)))
		require.Error(t, session.Feed(t.Context(), strings.Repeat("word ", 100_000)))
		session.End()
	}
}
