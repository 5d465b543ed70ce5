package api_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"assay/api"
)

// FuzzScore posts arbitrary bodies: the response is JSON, and never a 500.
func FuzzScore(f *testing.F) {
	f.Add([]byte(one("Fine. Not # fine.")), "application/json", "", "")
	f.Add([]byte(`{"responses":[{"messages":[{"role":"assistant","content":"<think>a</think> b"}]}],"options":{"top_k":2,"aggregate":"topk"}}`), "", "", "5")
	f.Add([]byte(`{"responses":[{"instances":["a","\u0000"],"metadata":{"x":[1e999]}}],"options":{"offset_unit":"utf16"}}`), "", "identity", "1s")
	f.Add(gzipped(f, []byte(one("a"))), "application/json", "gzip", "")
	f.Add(zstandard(f, []byte(one("a"))), "application/json", "zstd", "")
	f.Add([]byte("\xff\xfe{"), "text/html", "br", "-1")

	cfg := api.DefaultConfig()
	cfg.MaxBody = 1 << 16
	cfg.Insecure = true // a recorded request has no peer
	server, err := api.New(cfg, api.Parts{Scorer: scorerOf(f, &model{}, 0), Models: served}, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		f.Fatal(err)
	}
	expected := []int{200, 400, 404, 413, 415, 422, 504}
	f.Fuzz(func(t *testing.T, body []byte, contentType, encoding, timeout string) {
		r := httptest.NewRequest(http.MethodPost, "/v1/score", bytes.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("Content-Encoding", encoding)
		r.Header.Set("X-Request-Timeout", timeout)
		w := httptest.NewRecorder()
		server.Handler().ServeHTTP(w, r)
		if !slices.Contains(expected, w.Code) || !json.Valid(w.Body.Bytes()) {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
	})
}
