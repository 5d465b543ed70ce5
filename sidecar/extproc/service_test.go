package extproc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	filter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"assay/sidecar/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	chat  = "/v1/chat/completions"
	asked = `{"model":"m","messages":[{"role":"user","content":"How do I rest?"}]}`
	fine  = "Rest well. Drink water."
	rude  = "Rest well. You " + marker + " fool. Drink water."
)

func streamed(chunks ...string) upstream {
	return upstream{headers: map[string]string{"content-type": "text/event-stream"}, chunks: chunks}
}

// events is a stream of chat completions with a word in each event.
func events(text string) string {
	var out strings.Builder
	for _, word := range strings.SplitAfter(text, " ") {
		content, _ := json.Marshal(word)
		fmt.Fprintf(&out, `data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":%s}}]}`+"\n\n", content)
	}
	out.WriteString(`data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")
	return out.String()
}

// content is the text of a stream, and its finish reason.
func content(t *testing.T, body string) (text, reason string) {
	t.Helper()
	for line := range strings.Lines(body) {
		data, found := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !found || data == "[DONE]" {
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta  struct{ Content string }
				Finish string `json:"finish_reason"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(data), &chunk), data)
		for _, c := range chunk.Choices {
			text += c.Delta.Content
			if c.Finish != "" {
				reason = c.Finish
			}
		}
	}
	return text, reason
}

// cut cuts a text at random.
func cut(random *rand.Rand, text string) (pieces []string) {
	for text != "" {
		n := min(len(text), 1+random.IntN(40))
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return pieces
}

func TestStreams(t *testing.T) {
	for name, c := range map[string]struct {
		mode         proxy.Mode
		text         string
		want, reason string
		compliant    bool
	}{
		"compliant, observe": {proxy.Observe, fine, fine, "stop", true},
		"compliant, hold":    {proxy.Hold, fine, fine, "stop", true},
		"observe":            {proxy.Observe, rude, rude, "stop", false},
		"hold":               {proxy.Hold, rude, "Rest well. ", "content_filter", false},
		"stop":               {proxy.Stop, rude, "Rest well. ", "content_filter", false},
		"redact":             {proxy.Redact, rude, "Rest well. [removed]Drink water.", "stop", false},
	} {
		t.Run(name, func(t *testing.T) {
			e := start(t, c.mode, sentenceGuard{})
			random := rand.New(rand.NewPCG(1, 2))
			for range 20 {
				u := streamed(cut(random, events(c.text))...)
				u.trailer = random.IntN(2) == 0
				s := e.exchange(t, chat, asked, u)
				require.NoError(t, s.err)
				require.False(t, s.immediate)
				text, reason := content(t, s.body)
				require.Equal(t, c.want, text)
				require.Equal(t, c.reason, reason)
				require.Equal(t, []string{"accept-encoding"}, s.request.RemoveHeaders)
				require.Equal(t, strings.Contains(c.want, marker), strings.Contains(s.body, marker), s.body)
				verdict, _ := s.metadata["assay"].(map[string]any)
				require.Equal(t, c.compliant, verdict["compliant"], "%v", s.metadata)
			}
		})
	}
}

func TestBodies(t *testing.T) {
	whole := func(text string) upstream {
		return upstream{headers: map[string]string{"content-type": "application/json"}, chunks: []string{
			`{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"`, text, `"},"finish_reason":"stop"}]}`}}
	}
	prompts := make(chan string, 1)
	e := start(t, proxy.Hold, sentenceGuard{prompts: prompts})
	s := e.exchange(t, chat, asked, whole(fine))
	require.NoError(t, s.err)
	require.Contains(t, s.body, fine)
	require.NotEmpty(t, s.headers.Get(proxy.VerdictHeader))
	require.Empty(t, s.headers.Get("Content-Length"), "Envoy sets it")
	require.Equal(t, "How do I rest?", <-prompts)

	s = e.exchange(t, chat, asked, whole(rude))
	require.NoError(t, s.err)
	require.NotContains(t, s.body, marker)
	require.Contains(t, s.body, "content_filter")
	require.Equal(t, false, s.metadata["assay"].(map[string]any)["compliant"])
}

func TestOtherRequestsPass(t *testing.T) {
	e := start(t, proxy.Hold, sentenceGuard{})
	u := upstream{headers: map[string]string{"content-type": "application/json"}, chunks: []string{`{"data":`, `["` + marker + `"]}`}}
	s := e.exchange(t, "/v1/models", "", u)
	require.NoError(t, s.err)
	require.Equal(t, `{"data":["`+marker+`"]}`, s.body)
	u.status = http.StatusNotFound
	s = e.exchange(t, chat, asked, u) // an error of the upstream
	require.NoError(t, s.err)
	require.False(t, s.immediate)
	require.Equal(t, `{"data":["`+marker+`"]}`, s.body)
}

func TestFailures(t *testing.T) {
	broken := start(t, proxy.Hold, sentenceGuard{fail: errors.New("no model")})
	s := broken.exchange(t, chat, asked, streamed(events(fine)))
	require.NoError(t, s.err)
	require.NotContains(t, s.body, "water")
	require.Contains(t, s.body, `"error"`)

	s = broken.exchange(t, chat, asked, upstream{headers: map[string]string{"content-type": "application/json"},
		chunks: []string{`{"choices":[{"index":0,"message":{"content":"` + fine + `"}}]}`}})
	require.NoError(t, s.err)
	require.True(t, s.immediate)
	require.GreaterOrEqual(t, s.status, 500)
	require.NotContains(t, s.body, "water")

	e := start(t, proxy.Hold, sentenceGuard{})
	s = e.exchange(t, chat, asked, upstream{headers: map[string]string{"content-type": "text/event-stream", "content-encoding": "br"}, chunks: []string{marker}})
	require.NoError(t, s.err)
	require.True(t, s.immediate, "what cannot be read is not sent")
	require.NotContains(t, s.body, marker)
}

// On a machine so slow that the stream does not begin within the limit, it is doubled.
func TestUpstreamIsSilent(t *testing.T) {
	for name, u := range map[string]upstream{
		"headers": {},
		"stream":  streamed(events(fine)[:200]),
		"body":    {headers: map[string]string{"content-type": "application/json"}, chunks: []string{`{"choices":[`}},
	} {
		t.Run(name, func(t *testing.T) {
			u.silent = true
			for limit := 50 * time.Millisecond; ; limit *= 2 {
				e := startWith(t, sentenceGuard{}, func(c *proxy.Config) { c.Mode, c.UpstreamTimeout = proxy.Hold, limit })
				s := e.exchange(t, chat, asked, u)
				require.NoError(t, s.err)
				require.Contains(t, s.body, "upstream_timeout")
				if name == "stream" && s.immediate && limit < 5*time.Second {
					continue
				}
				require.Equal(t, name != "stream", s.immediate)
				return
			}
		})
	}
}

// A handler that asks no upstream responds to the client.
func TestImmediateResponse(t *testing.T) {
	e := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "busy", http.StatusServiceUnavailable)
	}))
	for _, body := range []string{"", asked} {
		s := e.exchange(t, chat, body, upstream{})
		require.NoError(t, s.err)
		require.True(t, s.immediate)
		require.Equal(t, http.StatusServiceUnavailable, s.status)
		require.Equal(t, "busy\n", s.body)
	}
}

func TestClientLeaves(t *testing.T) {
	e := start(t, proxy.Hold, sentenceGuard{})
	u := streamed(events(fine)[:200])
	u.cut = true
	s := e.exchange(t, chat, asked, u)
	require.Equal(t, codes.Canceled, status.Code(s.err), "%v", s.err)
}

func TestPanicOfAHandler(t *testing.T) {
	for want, value := range map[codes.Code]any{codes.Aborted: http.ErrAbortHandler, codes.Internal: "broken"} {
		e := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(value) }))
		require.Equal(t, want, status.Code(e.exchange(t, chat, asked, upstream{}).err))
	}
}

func TestModesOfEnvoy(t *testing.T) {
	for field, change := range map[string]func(e envoy){
		"response_body_mode": func(e envoy) { e.modes.ResponseBodyMode = filter.ProcessingMode_STREAMED },
		"request_body_mode":  func(e envoy) { e.modes.RequestBodyMode = filter.ProcessingMode_FULL_DUPLEX_STREAMED },
	} {
		e := start(t, proxy.Hold, sentenceGuard{})
		change(e)
		s := e.exchange(t, chat, asked, upstream{})
		require.Equal(t, codes.InvalidArgument, status.Code(s.err))
		require.ErrorContains(t, s.err, field)
	}
}
