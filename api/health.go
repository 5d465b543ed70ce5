package api

import (
	"context"
	"net/http"

	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
)

// Check reports whether one dependency of the service, such as "model" or
// "streams", is ready.
type Check struct {
	Name string
	// Ready returns nil, or why the dependency is not ready. It respects its
	// context, which allows a second. Its result is cached for up to a second, and
	// shared by all callers.
	Ready func(ctx context.Context) error
	// AtStart marks a dependency that the service can do without once it was
	// ready: it scores over HTTP while NATS is unreachable. The check counts for
	// /readyz until all checks have passed together once, and later only for
	// /readyz?NAME=1.
	AtStart bool
}

// health serves /livez and /readyz.
type health struct {
	checks  *readiness
	drained <-chan struct{}
}

type healthBody struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks,omitempty"`
	Error  *failure.Body     `json:"error,omitempty"`
}

func (h health) live(w http.ResponseWriter, r *http.Request) error {
	return httpjson.WriteProbe(w, r, http.StatusOK, healthBody{Status: "alive"})
}

func (h health) ready(w http.ResponseWriter, r *http.Request) error {
	if isClosed(h.drained) {
		return notReady(w, r, healthBody{Status: "draining"}, failure.ErrDraining)
	}
	also, err := h.requested(r)
	if err != nil {
		return err
	}
	now := h.checks.get(also...)
	if now.err != nil {
		return notReady(w, r, healthBody{Status: "not_ready", Checks: now.texts}, now.err)
	}
	return httpjson.WriteProbe(w, r, http.StatusOK, healthBody{Status: "ready", Checks: now.texts})
}

// requested returns the checks that a query names in addition to those that always
// count: ?streams=1.
func (h health) requested(r *http.Request) ([]string, error) {
	var names []string
	query := r.URL.Query()
	for _, check := range h.checks.checks {
		if !query.Has(check.Name) {
			continue
		}
		switch given := query.Get(check.Name); given {
		case "1", "true":
			names = append(names, check.Name)
		case "0", "false":
		default:
			return nil, failure.Invalid(check.Name, "%.50q is not a boolean; send 1 or 0", given)
		}
	}
	return names, nil
}

// readiness returns why /readyz would not respond 200. Everything that reports
// readiness uses it: HTTP, gRPC and the probes of other protocols.
func (h health) readiness() error {
	if isClosed(h.drained) {
		return failure.ErrDraining
	}
	return h.checks.get().err
}

// notReady responds with an error that also lists the checks.
func notReady(w http.ResponseWriter, r *http.Request, body healthBody, err error) error {
	x := exchange.Of(r)
	x.Err = err
	f := x.Failure(err)
	body.Error = new(f.Body(x.ID))
	w.Header().Set("Retry-After", httpjson.RetrySeconds(f.RetryAfter))
	return httpjson.WriteProbe(w, r, f.Status(), body)
}
