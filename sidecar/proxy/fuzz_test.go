package proxy_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/sidecar/proxy"
)

// Whatever JSON the upstream sends, no string of it with the marker reaches the client in
// a mode that enforces, except what is forwarded by design: tool calls, reasoning, errors
// and the request that a response repeats.
func FuzzNoUnscannedByteLeaves(f *testing.F) {
	for _, seed := range []string{
		`{"choices":[{"index":0,"delta":{"content":"Fine. ZQXJ. x"}}]}`,
		`{"choices":[{"index":1,"text":"ZQXJ","logprobs":{"tokens":["ZQXJ"]}}],"ZQXJ":"ZQXJ"}`,
		`{"type":"response.output_text.delta","delta":"Fine. ZQXJ"}`,
		`{"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"output_text","text":"ZQXJ"}]}]}}`,
		`{"type":"response.output_item.done","item":{"type":"ZQXJ","content":"ZQXJ"}}`,
		`{"text":"ZQXJ"}`, // in a response, these are settings
	} {
		for kind := range uint8(6) {
			f.Add(seed, kind)
		}
	}
	var upstream http.HandlerFunc
	var proxies []*proxy.Proxy
	guard := &sentenceGuard{}
	for _, mode := range []proxy.Mode{proxy.Hold, proxy.Stop, proxy.Redact} {
		config := proxy.DefaultConfig()
		config.Mode, config.Transport = mode, inMemory(func(w http.ResponseWriter, r *http.Request) { upstream(w, r) })
		p, err := proxy.New(config, guard, zerolog.Nop(), prometheus.NewRegistry())
		require.NoError(f, err)
		f.Cleanup(p.Close)
		proxies = append(proxies, p)
	}
	f.Fuzz(func(t *testing.T, message string, kind uint8) {
		if strings.ContainsAny(message, "\r\n") || len(message) > 1<<12 || generated(message) {
			return
		}
		upstream = script("data: "+message+"\n\n", doneEvent)
		if kind%2 == 1 {
			upstream = whole(message)
		}
		path := "/v1/responses"
		if strings.Contains(message, "choices") {
			path = "/v1/chat/completions"
		}
		w := httptest.NewRecorder()
		proxies[kind/2%3].ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader("{}")))
		require.NotContains(t, w.Body.String(), marker)
		require.Zero(t, guard.sessions())
	})
}

// inMemory is an upstream without a connection: a test of it takes no port, and no time to
// start.
type inMemory http.HandlerFunc

func (u inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	u(w, r)
	response := w.Result()
	response.Request = r
	return response, r.Body.Close()
}

// generated reports whether a message has the marker where the proxy trusts the upstream
// not to put what the model wrote.
func generated(message string) bool {
	var v any
	if json.Unmarshal([]byte(message), &v) != nil {
		return false
	}
	trusted := map[string]bool{}
	for _, name := range []string{
		"id", "object", "model", "role", "service_tier", "system_fingerprint", "finish_reason", "tool_calls", "function_call", "reasoning",
		"reasoning_content", "error", "type", "item_id", "status", "name", "arguments", "input", "call_id", "code", "message", "param",
		"tool_choice", "tools", "metadata", "previous_response_id", "truncation", "reason", "incomplete_details", "usage",
	} {
		trusted[name] = true
	}
	var within func(v any, below bool) bool
	within = func(v any, below bool) bool {
		switch v := v.(type) {
		case string:
			return below && strings.Contains(v, marker)
		case []any:
			for _, one := range v {
				if within(one, below) {
					return true
				}
			}
		case map[string]any:
			for name, one := range v {
				if below && strings.Contains(name, marker) || within(one, below || trusted[name] || name == "text" && isObject(one)) {
					return true
				}
			}
		}
		return false
	}
	return within(v, false)
}

func isObject(v any) bool { _, ok := v.(map[string]any); return ok }
