package proxy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"assay/sidecar/proxy"
)

var errScorer = errors.New("no scorer")

func failsAt(word string) func(string) error {
	return func(text string) error {
		if strings.Contains(text, word) {
			return errScorer
		}
		return nil
	}
}

// A long text is fed in pieces, each of which has a timeout of its own.
func TestLongTextIsFedInPieces(t *testing.T) {
	content := strings.Repeat("€uros. ", 3000)
	s := start(t, whole(fmt.Sprintf(`{"choices":[{"index":0,"message":{"content":%q}}]}`, content)), func(c *proxy.Config) { c.Mode = proxy.Hold })
	var fed []string
	s.guard.pieces = func(piece string) { fed = append(fed, piece) }
	_, body := s.post(t, "/v1/chat/completions", chatRequest)
	require.Contains(t, body, content)
	require.Equal(t, content, strings.Join(fed, ""))
	for _, piece := range fed {
		require.LessOrEqual(t, len(piece), 4<<10)
		require.True(t, utf8.ValidString(piece))
	}
}

func TestUnreadableRequest(t *testing.T) {
	s := start(t, chatScript("Fine. "), nil)
	var dialer net.Dialer
	connection, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	defer connection.Close()
	_, err = fmt.Fprint(connection, "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n")
	require.NoError(t, err)
	reply, err := io.ReadAll(connection)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(reply), "HTTP/1.1 400 "), string(reply))
}

// Text that arrives while the scorer fails is not lost. The second choice shows that both
// pieces of the first one have arrived.
func TestFailOpenLosesNothing(t *testing.T) {
	content := func(choice int, text string) string { return chatChunk(choice, object{"content": text}, nil) }
	fed, arrived := make(chan struct{}), make(chan struct{})
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		script(content(0, "One. "))(w, r)
		<-fed
		script(content(0, "Two. "), content(1, "Fine. "), chatChunk(0, object{}, "stop"), chatChunk(1, object{}, "stop"), doneEvent)(w, r)
	}, func(c *proxy.Config) { c.Mode, c.FailOpen = proxy.Hold, true })
	s.guard.fail = func(text string) error {
		if text == "Fine. " {
			close(arrived)
			return nil
		}
		close(fed)
		<-arrived
		return errScorer
	}
	_, body := s.post(t, "/v1/chat/completions", chatRequest)
	chunks, done := events(t, body)
	require.True(t, done)
	texts, _ := choiceTexts(t, chunks, "content")
	require.Equal(t, "One. Two. ", texts[0])
}

func TestScorerFails(t *testing.T) {
	pieces := []string{"Fine. ", "Hm", "m. ", "Bye. "}
	for _, c := range []struct {
		name    string
		mode    proxy.Mode
		open    bool
		want    string
		errored bool
		policy  string
	}{
		{"observe", proxy.Observe, false, "Fine. Hmm. Bye. ", false, "observe"},
		{"closed", proxy.Hold, false, "Fine. ", true, "closed"},
		{"open", proxy.Stop, true, "Fine. Hmm. Bye. ", false, "open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, chatScript(pieces...), func(p *proxy.Config) { p.Mode, p.FailOpen = c.mode, c.open })
			s.guard.fail = failsAt("Hm")
			_, body := s.post(t, "/v1/chat/completions", chatRequest)
			chunks, done := events(t, body)
			require.True(t, done)
			texts, _ := choiceTexts(t, chunks, "content")
			last := chunks[len(chunks)-1]
			if c.errored { // whether the first sentence was released depends on how much was fed together
				require.True(t, strings.HasPrefix(c.want, texts[0]), texts[0])
				require.Equal(t, "guard_failed", last["error"].(object)["code"])
			} else {
				require.Equal(t, c.want, texts[0])
				require.Nil(t, report(t, chunks)["compliant"])
			}
			require.InDelta(t, 1, testutil.ToFloat64(s.counter(t, "assay_proxy_failures_total", c.policy)), 0)
		})
		t.Run(c.name+"/whole", func(t *testing.T) {
			s := start(t, whole(`{"choices":[{"index":0,"message":{"content":"Fine. Hmm. Bye. "}}]}`), func(p *proxy.Config) { p.Mode, p.FailOpen = c.mode, c.open })
			s.guard.fail = failsAt("Hm")
			response, body := s.post(t, "/v1/chat/completions", chatRequest)
			if c.errored {
				require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
				require.Contains(t, body, "guard_failed")
				require.NotContains(t, body, "Hmm")
				return
			}
			require.Equal(t, http.StatusOK, response.StatusCode)
			require.Contains(t, body, "Fine. Hmm. Bye. ")
		})
	}
}

func TestSlowScorer(t *testing.T) {
	block := func(ctx context.Context) { <-ctx.Done() }
	t.Run("observe", func(t *testing.T) {
		s := start(t, chatScript("Fine. "), func(c *proxy.Config) { c.VerdictTimeout = 20 * time.Millisecond })
		s.guard.wait = block
		_, body := s.post(t, "/v1/chat/completions", chatRequest)
		chunks, done := events(t, body)
		require.True(t, done)
		require.Nil(t, report(t, chunks)["compliant"])
	})
	t.Run("hold", func(t *testing.T) {
		s := start(t, chatScript("Fine. "), func(c *proxy.Config) { c.Mode, c.VerdictTimeout = proxy.Hold, 20*time.Millisecond })
		s.guard.wait = block
		s.guard.fail = func(string) error { return context.DeadlineExceeded }
		_, body := s.post(t, "/v1/chat/completions", chatRequest)
		require.Contains(t, body, "guard_failed")
		require.NotContains(t, body, "Fine")
	})
}

func TestHeldTextIsBounded(t *testing.T) {
	endless := strings.Repeat("x", 100)
	for _, open := range []bool{false, true} {
		s := start(t, chatScript(endless, endless, "Bye"), func(c *proxy.Config) { c.Mode, c.FailOpen, c.MaxHeld = proxy.Hold, open, 150 })
		_, body := s.post(t, "/v1/chat/completions", chatRequest)
		chunks, _ := events(t, body)
		texts, _ := choiceTexts(t, chunks, "content")
		if open {
			require.Equal(t, endless+endless+"Bye", texts[0])
		} else {
			require.Empty(t, texts[0])
			require.Contains(t, body, "guard_failed")
		}
	}
}

func TestUnreadableUpstream(t *testing.T) {
	gzip := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write([]byte(marker))
	}
	plain := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte(marker))
	}
	for name, upstream := range map[string]http.HandlerFunc{
		"event":        script("data: {"+marker+"\n\n", doneEvent),
		"twice":        script(`data: {"choices":[{"index":0,"delta":{"content":"a","content":"`+marker+`"}}]}`+"\n\n", doneEvent),
		"parts":        script(`data: {"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"`+marker+`"}]}}]}`+"\n\n", doneEvent),
		"body":         whole("{" + marker),
		"large body":   whole(`{"choices":[{"message":{"content":"` + strings.Repeat(marker, 1000) + `"}}]}`),
		"large event":  script("data: " + strings.Repeat(marker, 1000)),
		"encoding":     gzip,
		"content type": plain,
	} {
		for _, open := range []bool{false, true} {
			t.Run(fmt.Sprint(name, open), func(t *testing.T) {
				s := start(t, upstream, func(c *proxy.Config) { c.Mode, c.FailOpen, c.MaxBody = proxy.Hold, open, 2000 })
				response, body := s.post(t, "/v1/chat/completions", chatRequest)
				if verdict := response.Header.Get(proxy.VerdictHeader) + response.Trailer.Get(proxy.VerdictHeader); verdict != "" {
					require.Contains(t, verdict, `"compliant":null`)
					require.Contains(t, verdict, `"reward":null`)
				}
				switch {
				case !open:
					require.NotContains(t, body, marker)
					require.Contains(t, body, "upstream_unreadable")
				case name != "large event" && name != "encoding": // nothing of that event was read completely, and this body has no gzip format
					require.Contains(t, body, marker)
				}
			})
		}
	}
}

// The errors of the upstream are the client's.
func TestUpstreamErrors(t *testing.T) {
	for _, m := range proxy.Modes() {
		t.Run(string(m), func(t *testing.T) {
			t.Run("status", func(t *testing.T) {
				s := start(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("X-Own", "1")
					w.WriteHeader(http.StatusTooManyRequests)
					_, _ = w.Write([]byte("slow down"))
				}, mode(m))
				response, body := s.post(t, "/v1/chat/completions", chatRequest)
				require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
				require.Equal(t, "1", response.Header.Get("X-Own"))
				require.Equal(t, "slow down", body)
			})
			t.Run("event", func(t *testing.T) {
				s := start(t, script(chatChunk(0, object{"content": "Fine"}, nil), data(object{"error": object{"message": "out of memory"}}), doneEvent), mode(m))
				_, body := s.post(t, "/v1/chat/completions", chatRequest)
				require.Contains(t, body, `"message":"out of memory"`)
				texts, _ := choiceTexts(t, first(events(t, body)), "content")
				require.Equal(t, "Fine", texts[0])
			})
			t.Run("half-way", func(t *testing.T) {
				s := start(t, func(w http.ResponseWriter, r *http.Request) {
					script(chatChunk(0, object{"content": "Fine. Go"}, nil))(w, r)
					panic(http.ErrAbortHandler)
				}, mode(m))
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(chatRequest))
				require.NoError(t, err)
				response, err := http.DefaultClient.Do(r)
				require.NoError(t, err)
				defer response.Body.Close()
				body, err := io.ReadAll(response.Body)
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				texts, _ := choiceTexts(t, first(events(t, string(body))), "content")
				require.Equal(t, "Fine. Go", texts[0])
				require.NotContains(t, string(body), "[DONE]")
			})
			t.Run("unreachable", func(t *testing.T) {
				s := start(t, nil, func(c *proxy.Config) { c.Mode, c.Upstream.Host = m, "127.0.0.1:1" })
				response, body := s.post(t, "/v1/chat/completions", chatRequest)
				require.Equal(t, http.StatusBadGateway, response.StatusCode)
				require.Contains(t, body, "upstream_unavailable")
			})
		})
	}
}

func first[A, B any](a A, _ B) A { return a }

// held is an upstream that sends events and then nothing, until its client leaves.
func held(left chan<- struct{}, sent ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		script(sent...)(w, r)
		<-r.Context().Done()
		left <- struct{}{}
	}
}

func TestStopCancelsTheUpstream(t *testing.T) {
	left := make(chan struct{}, 1)
	s := start(t, held(left, chatChunk(0, object{"content": "Fine. ZQXJ. "}, nil)), mode(proxy.Stop))
	_, body := s.post(t, "/v1/chat/completions", chatRequest)
	<-left
	chunks, done := events(t, body)
	require.True(t, done)
	texts, reasons := choiceTexts(t, chunks, "content")
	require.Equal(t, "Fine. ", texts[0])
	require.Equal(t, "content_filter", reasons[0])
}

// Of several choices, the last one that ends cancels the upstream.
func TestStopWaitsForTheOtherChoices(t *testing.T) {
	left := make(chan struct{}, 1)
	s := start(t, held(left, chatChunk(0, object{"content": "ZQXJ. "}, nil), chatChunk(1, object{"content": "Fine. Go on"}, "length"), chatChunk(2, object{"content": "No. ZQXJ. "}, nil)), mode(proxy.Stop))
	_, body := s.post(t, "/v1/chat/completions", `{"n":3,"messages":[]}`)
	<-left
	texts, reasons := choiceTexts(t, first(events(t, body)), "content")
	require.Equal(t, map[int]string{0: "", 1: "Fine. Go on", 2: "No. "}, texts)
	require.Equal(t, map[int]string{0: "content_filter", 1: "length", 2: "content_filter"}, reasons)
}

func TestClientLeaves(t *testing.T) {
	for _, m := range proxy.Modes() {
		t.Run(string(m), func(t *testing.T) {
			left := make(chan struct{}, 1)
			s := start(t, held(left, chatChunk(0, object{"role": "assistant", "content": "Fine. "}, nil)), mode(m))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(chatRequest))
			require.NoError(t, err)
			response, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			defer response.Body.Close()
			_, err = bufio.NewReader(response.Body).ReadString('\n')
			require.NoError(t, err)
			cancel()
			<-left
		})
	}
}

func TestUpstreamIsSilent(t *testing.T) {
	left := make(chan struct{}, 1)
	s := start(t, held(left, chatChunk(0, object{"content": "Fine. "}, nil)), func(c *proxy.Config) { c.UpstreamTimeout = 50 * time.Millisecond })
	_, body := s.post(t, "/v1/chat/completions", chatRequest)
	<-left
	require.Contains(t, body, "upstream_timeout")
}

func TestUpstreamIsSilentWithinABody(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"choices":[`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}, func(c *proxy.Config) { c.UpstreamTimeout = 50 * time.Millisecond })
	response, body := s.post(t, "/v1/chat/completions", chatRequest)
	require.Equal(t, http.StatusGatewayTimeout, response.StatusCode, body)
	require.Contains(t, body, "upstream_timeout")
}

func TestPassThrough(t *testing.T) {
	upstream := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Method", r.Method+" "+r.URL.RequestURI())
		w.Header().Set("X-Auth", r.Header.Get("Authorization"))
		w.Header().Set("X-Connection", r.Header.Get("X-Hop"))
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write(append(body, marker...))
	}
	s := start(t, upstream, mode(proxy.Hold))
	for _, path := range []string{"/v1/models", "/health", "/v1/embeddings?x=1", "/metrics"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.url+path, strings.NewReader("body "))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer k")
		r.Header.Set("Connection", "X-Hop")
		r.Header.Set("X-Hop", "1")
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		response.Body.Close()
		require.Equal(t, http.StatusTeapot, response.StatusCode)
		require.Equal(t, "body "+marker, string(body))
		require.Equal(t, "PUT "+path, response.Header.Get("X-Method"))
		require.Equal(t, "Bearer k", response.Header.Get("X-Auth"))
		require.Empty(t, response.Header.Get("X-Connection"))
	}
	require.Empty(t, s.guard.prompts)

	for _, request := range []string{
		"HEAD /v1/chat/completions", "OPTIONS /v1/chat/completions", "DELETE /v1/responses/id", "DELETE /v1/chat/completions/id", "POST /v1/responses/input_tokens",
	} {
		method, path, _ := strings.Cut(request, " ")
		s := start(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, marker) }, mode(proxy.Hold))
		r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, http.NoBody)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		response.Body.Close()
		require.Equal(t, http.StatusOK, response.StatusCode, request)
		if method != http.MethodHead {
			require.Equal(t, marker, string(body), request)
		}
	}

	s = start(t, upstream, func(c *proxy.Config) { c.GuardedOnly = true })
	response, _ := s.post(t, "/generate", "{}")
	require.Equal(t, http.StatusForbidden, response.StatusCode)
	for path, status := range map[string]int{
		"/v1/files/f1/content": http.StatusForbidden, "/v1/conversations/c1/items": http.StatusForbidden,
		"/v1/responses/r1/input_items": http.StatusForbidden, "/v1%2Ffiles/f1/content": http.StatusForbidden,
		"/v1/chat/completions/c1/messages": http.StatusForbidden, "/v1/threads/t1/messages": http.StatusForbidden,
		"/v1/models": http.StatusTeapot, "/health": http.StatusTeapot, "/metrics": http.StatusTeapot,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		response.Body.Close()
		require.Equal(t, status, response.StatusCode, path)
	}
}

// Streams of other endpoints are not buffered.
func TestPassThroughIsUnbuffered(t *testing.T) {
	next := make(chan struct{})
	s := start(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			fmt.Fprint(w, "x")
			_ = http.NewResponseController(w).Flush()
			<-next
		}
	}, nil)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/events", nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	for range 3 {
		_, err := io.ReadFull(response.Body, make([]byte, 1))
		require.NoError(t, err)
		next <- struct{}{}
	}
}

func TestLimits(t *testing.T) {
	left := make(chan struct{}, 1)
	s := start(t, held(left, chatChunk(0, object{"content": "Fine. "}, nil)), func(c *proxy.Config) { c.MaxRequests, c.MaxBody = 1, 1000 })
	response, body := s.post(t, "/v1/chat/completions", strings.Repeat(" ", 1001))
	require.Equal(t, http.StatusRequestEntityTooLarge, response.StatusCode, body)

	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(chatRequest))
	require.NoError(t, err)
	running, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer running.Body.Close()
	response, body = s.post(t, "/v1/chat/completions", chatRequest)
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode, body)
	require.NotEmpty(t, response.Header.Get("Retry-After"))
	cancel()
	<-left
}

// A request with more choices than any response may have counts as all requests, and not
// as a negative number of them.
func TestChoicesBeyondAllLimits(t *testing.T) {
	left := make(chan struct{}, 1)
	for _, request := range []string{`{"n":9223372036854775807,"prompt":"a","stream":true}`, `{"n":4611686018427387904,"prompt":["a","b"],"stream":true}`} {
		s := start(t, held(left, chatChunk(0, object{"content": "Fine. "}, nil)), func(c *proxy.Config) { c.MaxRequests = 2 })
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/completions", strings.NewReader(request))
		require.NoError(t, err)
		running, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		response, body := s.post(t, "/v1/completions", `{"prompt":"a"}`)
		require.Equal(t, http.StatusServiceUnavailable, response.StatusCode, body)
		cancel()
		<-left
		require.NoError(t, running.Body.Close())
	}
}

// A request with many choices counts as several, and a response with more than it asked
// for fails alone.
func TestManyChoices(t *testing.T) {
	left := make(chan struct{}, 1)
	s := start(t, held(left, chatChunk(0, object{"content": "Fine. "}, nil)), func(c *proxy.Config) { c.MaxRequests = 3 })
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/completions", strings.NewReader(`{"n":16,"prompt":["a","b","c"],"stream":true}`))
	require.NoError(t, err)
	running, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer running.Body.Close()
	response, body := s.post(t, "/v1/completions", `{"n":33,"prompt":"a","stream":true}`)
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode, body)
	require.Contains(t, body, "overloaded")
	cancel()
	<-left

	var choices []object
	for i := range 70 {
		choices = append(choices, object{"index": i, "message": object{"content": "Fine."}})
	}
	answer, err := json.Marshal(object{"choices": choices})
	require.NoError(t, err)
	for request, status := range map[string]int{`{"n":70}`: http.StatusOK, `{"n":1}`: http.StatusServiceUnavailable} {
		s := start(t, whole(string(answer)), func(c *proxy.Config) { c.Mode, c.MaxRequests = proxy.Hold, 3 })
		all := make(chan struct{})
		var scoring atomic.Int64
		s.guard.wait = func(ctx context.Context) { // until all sessions are open that will be
			if n := scoring.Add(1); n == 70 {
				close(all)
			}
			select {
			case <-all:
			case <-ctx.Done():
			}
		}
		response, body := s.post(t, "/v1/chat/completions", request)
		require.Equal(t, status, response.StatusCode, body)
	}
}

// The paths of the guarded endpoints, however they are written.
func TestGuardedPaths(t *testing.T) {
	s := start(t, whole(`{"choices":[{"index":0,"message":{"content":"ZQXJ"},"text":"ZQXJ"}],"output":[{"type":"message","content":[{"type":"output_text","text":"ZQXJ"}]}]}`), mode(proxy.Hold))
	for _, path := range []string{
		"/v1/chat/completions", "/v1/chat/completions/", "//v1//chat/completions", "/v1/x/../chat/completions", "/v1/chat%2Fcompletions",
		"/v1/chat/completion%73", "/chat/completions", "/openai/v1/chat/completions", "/v1/chat/completions/id", "/v1/completions",
		"/completions", "/v1/responses", "/v1/responses/id", "/v1/responses/id/cancel", "/responses",
	} {
		connection, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		require.NoError(t, err)
		fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", path)
		response, err := http.ReadResponse(bufio.NewReader(connection), nil)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		response.Body.Close()
		connection.Close()
		require.Equal(t, http.StatusOK, response.StatusCode, path)
		require.NotContains(t, string(body), marker, path)
	}
}
