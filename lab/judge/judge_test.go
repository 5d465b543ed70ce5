package judge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// question is a request body.
type question struct {
	Model    string
	Messages []struct{ Role, Content string }
	// Pointers distinguish absent fields from zero values.
	Temperature         *float64
	MaxTokens           *int `json:"max_tokens"`
	MaxCompletionTokens *int `json:"max_completion_tokens"`
}

// stub is a server of chat completions.
func stub(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, q question)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var q question
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" || json.Unmarshal(body, &q) != nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		answer(w, r, q)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// say replies like a model.
func say(w http.ResponseWriter, content string) {
	choose(w, map[string]any{"content": content}, "stop")
}

func choose(w http.ResponseWriter, message map[string]any, finish string) {
	message["role"] = "assistant"
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": "1", "object": "chat.completion", "model": "m",
		"choices": []any{map[string]any{"index": 0, "finish_reason": finish, "message": message}},
	})
}

// fail returns an error like a server; the client may retry immediately.
func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After-Ms", "1")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": code, "message": message, "type": "x", "param": nil}})
}

func newJudge(t *testing.T, cfg Config) *Judge {
	t.Helper()
	cfg.Model = "m"
	j, err := New(cfg)
	require.NoError(t, err)
	return j
}

// A redirect would send the text of a response to a server that nobody chose.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		elsewhere.Add(1)
		say(w, "positive")
	}))
	defer other.Close()
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		base := stub(t, func(w http.ResponseWriter, r *http.Request, _ question) {
			http.Redirect(w, r, other.URL+"/v1/chat/completions?key=secret", status)
		})
		_, err := newJudge(t, Config{BaseURL: base}).Judge(t.Context(), []string{"text"})
		require.ErrorIs(t, err, ErrAPI, "%d", status)
		require.ErrorContains(t, err, "redirects to "+other.URL+", which is not followed; set the base URL")
		require.NotContains(t, err.Error(), "secret")
	}
	require.Zero(t, elsewhere.Load())
}

func TestAsksAsThePaperDoes(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-environment")
	var key atomic.Value
	base := stub(t, func(w http.ResponseWriter, r *http.Request, q question) {
		key.Store(strings.Join(r.Header["Authorization"], ","))
		require.Equal(t, "m", q.Model)
		require.Len(t, q.Messages, 2)
		require.Equal(t, "system", q.Messages[0].Role)
		require.Equal(t, "user", q.Messages[1].Role)
		if q.Messages[0].Content == "custom" {
			require.Nil(t, q.Temperature)
			require.Nil(t, q.MaxTokens)
			require.Equal(t, 4096, *q.MaxCompletionTokens)
		} else {
			require.Equal(t, DefaultPrompt, q.Messages[0].Content)
			require.Zero(t, *q.Temperature)
			require.Equal(t, 16, *q.MaxTokens)
			require.Nil(t, q.MaxCompletionTokens)
		}
		if strings.Contains(q.Messages[1].Content, "bad") {
			say(w, "negative")
			return
		}
		say(w, "positive")
	})
	var told []int
	j := newJudge(t, Config{BaseURL: base, Report: func(done, total int) {
		require.Equal(t, 3, total)
		told = append(told, done)
	}})
	got, err := j.Judge(t.Context(), []string{"good", "bad \"quoted\" \u2028 text", strings.Repeat("long ", 200_000)})
	require.NoError(t, err)
	require.Equal(t, []Verdict{{Compliant, "positive", "stop"}, {Violation, "negative", "stop"}, {Compliant, "positive", "stop"}}, got)
	require.Equal(t, []int{1, 2, 3}, told)
	require.Equal(t, "", key.Load(), "a key in the environment is for another server")

	j = newJudge(t, Config{BaseURL: base + "/", APIKey: "sk-mine", Prompt: "custom", Reasoning: true})
	_, err = j.Judge(t.Context(), []string{"x"})
	require.NoError(t, err)
	require.Equal(t, "Bearer sk-mine", key.Load())

	none, err := j.Judge(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestRefusalsAndFiltersAreUnreadable(t *testing.T) {
	base := stub(t, func(w http.ResponseWriter, r *http.Request, q question) {
		switch q.Messages[1].Content {
		case "refusal":
			choose(w, map[string]any{"content": nil, "refusal": "I cannot help with that."}, "stop")
		case "filter":
			fail(w, http.StatusBadRequest, "content_filter", "The prompt was filtered.")
		case "cut":
			choose(w, map[string]any{"content": "<think>It is nega"}, "length")
		case "chat":
			say(w, "I think it is negative.")
		}
	})
	got, err := newJudge(t, Config{BaseURL: base}).Judge(t.Context(), []string{"refusal", "filter", "cut", "chat"})
	require.NoError(t, err)
	require.Equal(t, []Verdict{
		{Unreadable, "I cannot help with that.", "refusal"},
		{Unreadable, "The prompt was filtered.", "content_filter"},
		{Unreadable, "<think>It is nega", "length"},
		{Unreadable, "I think it is negative.", "stop"},
	}, got)
}

func TestBusyServersAreRetried(t *testing.T) {
	var calls atomic.Int32
	base := stub(t, func(w http.ResponseWriter, r *http.Request, q question) {
		switch calls.Add(1) {
		case 1:
			fail(w, http.StatusTooManyRequests, "rate_limit_exceeded", "slow down")
		case 2:
			fail(w, http.StatusInternalServerError, "", "oops")
		case 3:
			panic(http.ErrAbortHandler)
		default:
			say(w, "positive")
		}
	})
	got, err := newJudge(t, Config{BaseURL: base}).Judge(t.Context(), []string{"x"})
	require.NoError(t, err)
	require.Equal(t, Compliant, got[0].Decision)
	require.EqualValues(t, 4, calls.Load())
}

func TestFailuresNameTheServerAndItsStatus(t *testing.T) {
	const key = "sk-very-secret"
	for name, c := range map[string]struct {
		answer func(w http.ResponseWriter)
		says   []string
	}{
		"always 500":      {func(w http.ResponseWriter) { fail(w, 500, "", "oops") }, []string{"500 Internal Server Error", "oops"}},
		"always 429":      {func(w http.ResponseWriter) { fail(w, 429, "insufficient_quota", "pay") }, []string{"429", "insufficient_quota"}},
		"wrong key":       {func(w http.ResponseWriter) { fail(w, 401, "invalid_api_key", "Incorrect key: "+key) }, []string{"401", "check the API key", "<key>"}},
		"reasoning model": {func(w http.ResponseWriter) { fail(w, 400, "unsupported_value", "temperature") }, []string{"400", "Reasoning"}},
		"a page of a proxy": {func(w http.ResponseWriter) {
			w.Header().Set("Retry-After-Ms", "1")
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, "<html>Bad gateway</html>")
		}, []string{"502"}},
		"malformed": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"choices":[{`)
		}, []string{"200 OK", "an unreadable reply"}},
		"text": {func(w http.ResponseWriter) { fmt.Fprint(w, "hello") }, []string{"200 OK", "an unreadable reply"}},
		"no choice": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"choices":[]}`)
		}, []string{"has no choices"}},
	} {
		t.Run(name, func(t *testing.T) {
			base := stub(t, func(w http.ResponseWriter, _ *http.Request, _ question) { c.answer(w) })
			_, err := newJudge(t, Config{BaseURL: base, APIKey: key, Retries: 2}).Judge(t.Context(), []string{"x"})
			require.ErrorIs(t, err, ErrAPI)
			for _, text := range append(c.says, strings.TrimSuffix(strings.TrimPrefix(base, "http://"), "/v1"), `"m"`, "text 1 of 1") {
				require.ErrorContains(t, err, text)
			}
			require.NotContains(t, err.Error(), key)
		})
	}

	base := stub(t, nil)
	_, err := newJudge(t, Config{BaseURL: strings.TrimSuffix(base, "/v1")}).Judge(t.Context(), []string{"x"})
	require.ErrorContains(t, err, "lack /v1")

	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	_, err = newJudge(t, Config{BaseURL: closed.URL + "/v1?key=secret", Retries: -1}).Judge(t.Context(), []string{"x"})
	require.ErrorIs(t, err, ErrAPI)
	require.NotContains(t, err.Error(), "secret")
}

func TestFailureKeepsPartialResults(t *testing.T) {
	base := stub(t, func(w http.ResponseWriter, _ *http.Request, q question) {
		if q.Messages[1].Content == "3" {
			fail(w, http.StatusForbidden, "", "no")
			return
		}
		say(w, "negative")
	})
	texts := make([]string, 50)
	for i := range texts {
		texts[i] = strconv.Itoa(i)
	}
	got, err := newJudge(t, Config{BaseURL: base, Concurrency: 1}).Judge(t.Context(), texts)
	require.ErrorIs(t, err, ErrAPI)
	require.Len(t, got, 50)
	for i, v := range got {
		want := Decision("")
		if i < 3 {
			want = Violation
		}
		require.Equal(t, want, v.Decision, i)
	}
}

func TestConcurrencyIsBounded(t *testing.T) {
	var now, most atomic.Int32
	full := make(chan struct{})
	base := stub(t, func(w http.ResponseWriter, _ *http.Request, _ question) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if n == 3 {
			close(full) // only once: the others wait for it
		}
		<-full
		say(w, "positive")
	})
	j := newJudge(t, Config{BaseURL: base, Concurrency: 3})
	_, err := j.Judge(t.Context(), make([]string, 3))
	require.NoError(t, err)
	require.EqualValues(t, 3, most.Load())

	full, most = make(chan struct{}), atomic.Int32{}
	close(full)
	base = stub(t, func(w http.ResponseWriter, _ *http.Request, _ question) {
		if n := now.Add(1); n > 3 {
			most.Store(n)
		}
		defer now.Add(-1)
		say(w, "positive")
	})
	_, err = newJudge(t, Config{BaseURL: base, Concurrency: 3}).Judge(t.Context(), make([]string, 60))
	require.NoError(t, err)
	require.Zero(t, most.Load(), "never more than three")
}

func TestCancelAndTimeout(t *testing.T) {
	here := make(chan struct{}, 8)
	base := stub(t, func(_ http.ResponseWriter, r *http.Request, _ question) {
		here <- struct{}{}
		<-r.Context().Done()
	})
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-here
		cancel(stopped)
	}()
	got, err := newJudge(t, Config{BaseURL: base, Concurrency: 2}).Judge(ctx, make([]string, 5))
	require.ErrorIs(t, err, stopped)
	require.Equal(t, make([]Verdict, 5), got)
	_, err = newJudge(t, Config{BaseURL: base}).Judge(ctx, make([]string, 5))
	require.ErrorIs(t, err, stopped, "before the first request")

	_, err = newJudge(t, Config{BaseURL: base, Timeout: 20 * time.Millisecond, Retries: -1}).Judge(t.Context(), []string{"x"})
	require.ErrorIs(t, err, ErrAPI)
	require.ErrorContains(t, err, "1 attempts")
}

func TestSettings(t *testing.T) {
	good := Config{BaseURL: "http://localhost:1/v1", Model: "m"}
	for name, edit := range map[string]func(*Config){
		"base URL":    func(c *Config) { c.BaseURL = "" },
		"such as":     func(c *Config) { c.BaseURL = "localhost:8000" },
		"a user":      func(c *Config) { c.BaseURL = "https://a:b@x/v1" },
		"model":       func(c *Config) { c.Model = "" },
		"concurrency": func(c *Config) { c.Concurrency = -1 },
		"timeout":     func(c *Config) { c.Timeout = -1 },
		"max tokens":  func(c *Config) { c.MaxTokens = -1 },
	} {
		cfg := good
		edit(&cfg)
		_, err := New(cfg)
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, name)
	}
}
