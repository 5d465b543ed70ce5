package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Check tells whether one part that scoring depends on, such as "model" or
// "streams", is ready. Ready returns nil or why it is not, and keeps to its
// context, which allows it a second together with the other checks.
type Check struct {
	Name  string
	Ready func(ctx context.Context) error
}

// readyTimeout is the patience of a Kubernetes probe by default.
const readyTimeout = time.Second

// errDraining is the reason that /readyz gives during a drain.
var errDraining = fmt.Errorf("%w: shutting down", ErrNotReady)

type healthBody struct {
	Status string            `json:"status"`
	Checks map[string]string `json:"checks,omitempty"`
	Error  *errorBody        `json:"error,omitempty"`
}

func (s *Server) live(w http.ResponseWriter, r *http.Request) error {
	return s.writeJSON(w, r, http.StatusOK, healthBody{Status: "alive"})
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) error {
	if s.draining() {
		return s.notReady(w, r, healthBody{Status: "draining"}, errDraining)
	}
	checks, err := s.check(r.Context())
	if err != nil {
		return s.notReady(w, r, healthBody{Status: "not_ready", Checks: checks}, err)
	}
	return s.writeJSON(w, r, http.StatusOK, healthBody{Status: "ready", Checks: checks})
}

// check asks every part whether it is ready. The error wraps [ErrNotReady] and
// names all that are not.
func (s *Server) check(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	checks := map[string]string{}
	var missing []string
	for _, check := range s.parts.Checks {
		checks[check.Name] = "ok"
		if err := check.Ready(ctx); err != nil {
			checks[check.Name] = err.Error()
			missing = append(missing, check.Name+" ("+err.Error()+")")
		}
	}
	if len(missing) > 0 {
		return checks, fmt.Errorf("%w: %s", ErrNotReady, strings.Join(missing, ", "))
	}
	return checks, nil
}

// readiness is why /readyz would not answer 200.
func (s *Server) readiness(ctx context.Context) error {
	if s.draining() {
		return errDraining
	}
	_, err := s.check(ctx)
	return err
}

// notReady is an error answer like any other that also lists the checks.
func (s *Server) notReady(w http.ResponseWriter, r *http.Request, body healthBody, err error) error {
	x := exchangeOf(r)
	x.err = err
	f := s.explain(err, x.id)
	body.Error = new(f.body(x.id))
	w.Header().Set("Retry-After", retrySeconds(f.retryAfter))
	return s.writeJSON(w, r, f.status, body)
}
