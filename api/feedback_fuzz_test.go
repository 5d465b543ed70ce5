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
	"assay/rewardmodel/feedback"
)

// FuzzFeedback posts arbitrary bodies to the endpoints of labels, models and training:
// the response is JSON and never a 5xx, and a receipt counts each item once.
func FuzzFeedback(f *testing.F) {
	targets := []struct{ method, path string }{
		{http.MethodPost, "/v1/feedback"}, {http.MethodPost, "/v1/training"}, {http.MethodPost, "/v1/training/stop"},
		{http.MethodPost, "/v1/models/v7/promote"}, {http.MethodPost, "/v1/models/rollback"},
	}
	f.Add(uint8(0), []byte(`{"batch_id":"b","items":[{"id":"r1","label":"violation","response":"You fool."},{"id":"r2"}]}`), "application/json")
	f.Add(uint8(0), []byte("{\"id\":\"a\",\"label\":\"compliant\",\"response\":\"x\"}\n\n{"), "application/x-ndjson")
	f.Add(uint8(1), []byte(`{"reason":"x","refreeze":true}`), "application/json")
	f.Add(uint8(3), []byte(`{"reason":"\ud800"}`), "application/json")
	f.Add(uint8(4), []byte(`null`), "")

	cfg := api.DefaultConfig()
	cfg.MaxBody = 1 << 16
	cfg.Insecure = true // a recorded request has no peer
	fleet := &fakeFleet{}
	install := api.Parts{Scorer: scorerOf(f, &model{}, 0), Models: served}
	fleet.install(&install)
	server, err := api.New(cfg, install, zerolog.Nop(), prometheus.NewRegistry())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte, contentType string) {
		target := targets[int(which)%len(targets)]
		r := httptest.NewRequest(target.method, target.path, bytes.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		fleet.calls = nil
		server.Handler().ServeHTTP(w, r)
		if !slices.Contains([]int{200, 202, 400, 404, 405, 409, 413, 415, 422}, w.Code) || !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s %s: status %d: %s", target.method, target.path, w.Code, w.Body)
		}
		if target.path != "/v1/feedback" || w.Code != http.StatusAccepted {
			return
		}
		var receipt feedback.Receipt
		if err := json.Unmarshal(w.Body.Bytes(), &receipt); err != nil {
			t.Fatal(err)
		}
		if receipt.Accepted+len(receipt.Rejected) == 0 {
			t.Fatalf("a receipt without items: %s", w.Body)
		}
	})
}
