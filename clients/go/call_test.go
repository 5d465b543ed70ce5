package assay_test

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	assay "assay/clients/go"
)

func TestCallReturnsTheBodyAsItIs(t *testing.T) {
	c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || r.URL.RequestURI() != "/v1/new?n=1" || r.Header.Get("Content-Type") != "text/plain" || string(body) != "a" {
			t.Error(r.Method, r.URL, r.Header, string(body))
		}
		reply(w, 200, `{"b": 1,  "unknown":[2]}`)
	}))
	got, err := c.Call(t.Context(), assay.Request{Method: http.MethodPost, Path: "/v1/new?n=1", MediaType: "text/plain", Body: []byte("a")})
	if err != nil || string(got) != `{"b": 1,  "unknown":[2]}` {
		t.Error(string(got), err)
	}
}

func TestCallRepeatsWhatIsRepeatable(t *testing.T) {
	retry := quick
	retry.MaxAttempts = 3
	for name, tc := range map[string]struct {
		request  assay.Request
		code     string
		attempts int64
	}{
		"GET":                            {assay.Request{}, "unavailable", 3},
		"DELETE":                         {assay.Request{Method: http.MethodDelete}, "unavailable", 3},
		"POST":                           {assay.Request{Method: http.MethodPost}, "unavailable", 1},
		"POST of which nothing was done": {assay.Request{Method: http.MethodPost}, "overloaded", 3},
		"repeatable POST":                {assay.Request{Method: http.MethodPost, Idempotent: true}, "unavailable", 3},
	} {
		t.Run(name, func(t *testing.T) {
			var seen atomic.Int64
			c := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
				seen.Add(1)
				refuse(w, 503, tc.code, "")
			}), assay.WithRetry(retry))
			tc.request.Path = "/v1/x"
			if _, err := c.Call(t.Context(), tc.request); !errors.Is(err, assay.ErrUnavailable) {
				t.Error(err)
			}
			if seen.Load() != tc.attempts {
				t.Errorf("%d attempts, not %d", seen.Load(), tc.attempts)
			}
		})
	}
}
