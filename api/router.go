package api

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// endpoint is a handler that leaves its errors to the one place that maps them
// to a status.
type endpoint func(w http.ResponseWriter, r *http.Request) error

func (s *Server) router(guard *http.CrossOriginProtection, registry *prometheus.Registry) http.Handler {
	r := s.base(guard)
	s.get(r, "/", s.index)
	s.get(r, "/openapi.json", s.openAPI)
	s.get(r, "/v1/models", s.listModels)
	s.get(r, "/v1/models/{version}", s.showModel)
	r.Post("/v1/score", s.endpoint(s.score))
	s.health(r, registry)
	return r
}

func (s *Server) opsRouter(guard *http.CrossOriginProtection, registry *prometheus.Registry) http.Handler {
	r := s.base(guard)
	s.health(r, registry)
	return r
}

// base is what every router begins with. The order matters: what observes
// stands outside of what recovers, so that a panic is logged as the 500 that
// it becomes.
func (s *Server) base(guard *http.CrossOriginProtection) chi.Router {
	r := chi.NewRouter()
	r.Use(s.observe, s.recoverPanics, s.refuseForeignOrigin(guard))
	r.NotFound(s.endpoint(notFound))
	r.MethodNotAllowed(s.endpoint(methodNotAllowed))
	return r
}

func (s *Server) health(r chi.Router, registry *prometheus.Registry) {
	s.get(r, "/livez", s.live)
	s.get(r, "/readyz", s.ready)
	exposition := promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorHandling:     promhttp.ContinueOnError,
		EnableOpenMetrics: true,
	})
	s.get(r, "/metrics", func(w http.ResponseWriter, r *http.Request) error {
		exposition.ServeHTTP(w, r)
		return nil
	})
}

// get serves HEAD wherever it serves GET; net/http leaves the body out.
func (s *Server) get(r chi.Router, pattern string, e endpoint) {
	r.Get(pattern, s.endpoint(e))
	r.Head(pattern, s.endpoint(e))
}

func (s *Server) endpoint(e endpoint) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := e(w, r); err != nil {
			s.fail(w, r, err)
		}
	}
}

func notFound(_ http.ResponseWriter, r *http.Request) error {
	return errNotFound("there is nothing at %.200q; GET / lists the endpoints", r.URL.Path)
}

// methodNotAllowed also answers OPTIONS: 204 with the methods that the path
// has. Without CORS headers a browser takes that as a no.
func methodNotAllowed(w http.ResponseWriter, r *http.Request) error {
	methods, pattern := allowed(r)
	exchangeOf(r).route = pattern
	allow := strings.Join(append(methods, http.MethodOptions), ", ")
	w.Header().Set("Allow", allow)
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return errMethod(r.Method, r.URL.Path, allow)
}

// allowed returns the methods of a path that some route has, and its pattern.
func allowed(r *http.Request) (methods []string, pattern string) {
	routes := chi.RouteContext(r.Context()).Routes
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if found := routes.Find(chi.NewRouteContext(), method, r.URL.Path); found != "" {
			methods, pattern = append(methods, method), found
		}
	}
	return methods, pattern
}

// endpoints is what GET / lists.
var endpoints = []struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Does   string `json:"does"`
}{
	{"POST", "/v1/score", "rewards and the most anomalous span of each response"},
	{"GET", "/v1/models", "the models that serve"},
	{"GET", "/v1/models/{version}", "one of them"},
	{"GET", "/livez", "the process answers"},
	{"GET", "/readyz", "it can score: 200, else 503 with what is missing"},
	{"GET", "/metrics", "Prometheus metrics"},
	{"GET", "/openapi.json", "this interface as OpenAPI 3.1"},
}

func (s *Server) index(w http.ResponseWriter, r *http.Request) error {
	return s.writeJSON(w, r, http.StatusOK, map[string]any{"name": "assay", "endpoints": endpoints})
}
