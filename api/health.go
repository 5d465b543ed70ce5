package api

import (
	"context"
	"fmt"
	"net/http"
)

// Check reports whether one part that the service depends on, such as "model" or
// "streams", is ready.
type Check struct {
	Name string
	// Ready returns nil or why the part is not ready, and keeps to its context,
	// which allows it a second. Its outcome is kept for up to a second, and
	// shared by all that ask.
	Ready func(ctx context.Context) error
	// AtStart is for a part that the service can do without once it was there,
	// as it scores over HTTP while NATS is away. It counts for /readyz until all
	// checks have passed together once, and later only for /readyz?NAME=1.
	AtStart bool
}

// errDraining is the reason that /readyz gives during a drain.
var errDraining = fmt.Errorf("%w: shutting down", ErrNotReady)

type healthBody struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks,omitempty"`
	Error  *errorBody        `json:"error,omitempty"`
}

func (s *Server) live(w http.ResponseWriter, r *http.Request) error {
	return s.writeHealth(w, r, http.StatusOK, healthBody{Status: "alive"})
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) error {
	if s.draining() {
		return s.notReady(w, r, healthBody{Status: "draining"}, errDraining)
	}
	also, err := s.alsoAsked(r)
	if err != nil {
		return err
	}
	now := s.checks.get(also...)
	if now.err != nil {
		return s.notReady(w, r, healthBody{Status: "not_ready", Checks: now.texts}, now.err)
	}
	return s.writeHealth(w, r, http.StatusOK, healthBody{Status: "ready", Checks: now.texts})
}

// alsoAsked are the checks that a query asks for beyond those that count for
// every caller: ?streams=1.
func (s *Server) alsoAsked(r *http.Request) ([]string, error) {
	var names []string
	query := r.URL.Query()
	for _, check := range s.parts.Checks {
		if !query.Has(check.Name) {
			continue
		}
		switch given := query.Get(check.Name); given {
		case "1", "true":
			names = append(names, check.Name)
		case "0", "false":
		default:
			return nil, errInvalid(check.Name, "%.50q is not a boolean; send 1 or 0", given)
		}
	}
	return names, nil
}

// readiness is why /readyz would not answer 200. Everything that reports
// readiness follows it: HTTP, gRPC and the probes of other protocols.
func (s *Server) readiness() error {
	if s.draining() {
		return errDraining
	}
	return s.checks.get().err
}

// notReady is an error answer like any other that also lists the checks.
func (s *Server) notReady(w http.ResponseWriter, r *http.Request, body healthBody, err error) error {
	x := exchangeOf(r)
	x.err = err
	f := s.explain(err, x.id)
	body.Error = new(f.body(x.id))
	w.Header().Set("Retry-After", retrySeconds(f.retryAfter))
	return s.writeHealth(w, r, f.status, body)
}

// writeHealth answers a probe. The response is small and takes none of the
// memory for requests: overload must not look like a process that is not alive.
func (s *Server) writeHealth(w http.ResponseWriter, r *http.Request, status int, value any) error {
	body, err := encode(nil, value)
	if err != nil {
		return err
	}
	s.write(w, r, status, body)
	return nil
}
