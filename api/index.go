package api

import (
	"net/http"
	"strings"

	"assay/api/internal/httpjson"
)

// operation is an entry of the list at GET /.
type operation struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Does   string `json:"does"`
}

// nativeOperations are assay's own endpoints.
var nativeOperations = []operation{
	{"POST", "/v1/score", "rewards and the most anomalous span of each response"},
	{"POST", "/v1/live", "verdicts on a response while it is being written"},
	{"GET", "/v1/live", "the same over a WebSocket"},
	{"GET", "/v1/models", "the models that serve, and all others on record"},
	{"GET", "/v1/models/{version}", "one model: its data, its metrics, and why it was promoted or rejected"},
	{"POST", "/v1/models/{version}/promote", "promote a version"},
	{"POST", "/v1/models/rollback", "promote the version that served before"},
	{"POST", "/v1/feedback", "labels of whole responses, to train on"},
	{"GET", "/v1/feedback", "counts of the labels"},
	{"GET", "/v1/feedback/candidates", "the responses whose labels are the most informative"},
	{"GET", "/v1/feedback/{id}/labels", "the labels of a response, by rater"},
	{"DELETE", "/v1/feedback/{id}/labels", "withdraw the label of one rater"},
	{"DELETE", "/v1/feedback/{id}", "erase everything stored about a response"},
	{"GET", "/v1/training", "the training run in progress, or what training waits for"},
	{"POST", "/v1/training", "start a training run"},
	{"POST", "/v1/training/stop", "stop the training run in progress"},
	{"GET", "/v1/events", "events of models and training runs, as server-sent events"},
	{"GET", "/v1/scored", "the responses that were scored last, as server-sent events"},
	{"GET", "/livez", "the process is alive"},
	{"GET", "/readyz", "the service can score: 200, otherwise 503 with what is missing"},
	{"GET", "/metrics", "Prometheus metrics"},
	{"GET", "/openapi.json", "this API as OpenAPI 3.1"},
	{"GET", "/console/session", "who the caller is, for the console"},
	{"POST", "/console/session", "a session of the console, for a token"},
	{"DELETE", "/console/session", "end the session"},
	{"GET", "/console/assets/{file}", "scripts and style sheets of the console"},
}

// index lists the endpoints.
func index(protocols []httpjson.Route) httpjson.Handler {
	operations := append([]operation{}, nativeOperations...)
	for _, p := range protocols {
		operations = append(operations, operation{p.Method, p.Pattern, p.Summary})
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		return httpjson.WriteJSON(w, r, http.StatusOK, map[string]any{"name": "assay", "endpoints": operations})
	}
}

// pageOrIndex serves the console to browsers, which list text/html first, and the
// index to every other client.
func pageOrIndex(page, index httpjson.Handler) httpjson.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Add("Vary", "Accept")
		first, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
		kind, _, _ := strings.Cut(first, ";")
		if strings.EqualFold(strings.TrimSpace(kind), "text/html") {
			return page(w, r)
		}
		return index(w, r)
	}
}
