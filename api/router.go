package api

import (
	"net/http"
	"slices"
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
	s.health(r, registry)
	r.Post("/v1/score", s.endpoint(s.needs(ScopeScore, s.timely(prioritized(s.score)))))
	s.get(r, "/v1/models", s.needs(ScopeScore, s.timely(s.listModels)))
	s.get(r, "/v1/models/{version}", s.needs(ScopeScore, s.timely(s.showModel)))
	s.loop(r)
	s.compat(r)
	return r
}

// loop adds what turns labels into models. A part that is missing is told to
// those alone who might use it.
func (s *Server) loop(r chi.Router) {
	p := s.parts
	feedback := func(there bool, e endpoint) endpoint {
		return s.needs(ScopeFeedback, s.timely(enabled(there, e)))
	}
	admin := func(there bool, e endpoint) http.HandlerFunc {
		return s.endpoint(s.needs(ScopeAdmin, s.timely(enabled(there, e))))
	}
	r.Post("/v1/feedback", s.endpoint(feedback(p.Feedback != nil, s.addFeedback)))
	s.get(r, "/v1/feedback", feedback(p.FeedbackView != nil, s.showFeedback))
	s.get(r, "/v1/feedback/candidates", feedback(p.FeedbackView != nil, s.listCandidates))
	r.Delete("/v1/feedback/{id}", admin(p.Feedback != nil, s.eraseFeedback))
	r.Post("/v1/models/{version}/promote", admin(p.Promotions != nil, s.promote))
	r.Post("/v1/models/rollback", admin(p.Promotions != nil, s.rollBack))
	s.get(r, "/v1/training", feedback(p.Trainings != nil, s.showTraining))
	r.Post("/v1/training", admin(p.Trainings != nil, s.startTraining))
	// A stream of events is as long as its client likes.
	s.get(r, "/v1/events", s.needs(ScopeFeedback, enabled(p.Events != nil, s.showEvents)))
}

func enabled(there bool, e endpoint) endpoint {
	if there {
		return e
	}
	return func(http.ResponseWriter, *http.Request) error { return errNotEnabled() }
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
	r.MethodNotAllowed(s.endpoint(s.methodNotAllowed))
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
func (s *Server) methodNotAllowed(w http.ResponseWriter, r *http.Request) error {
	methods, pattern := allowed(r)
	x := exchangeOf(r)
	x.route, x.dialect = pattern, s.dialects[pattern]
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

// operation is an entry of what GET / lists.
type operation struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Does   string `json:"does"`
}

// endpoints are assay's own, as GET / lists them.
var endpoints = []operation{
	{"POST", "/v1/score", "rewards and the most anomalous span of each response"},
	{"GET", "/v1/models", "the models that serve, and all that there were"},
	{"GET", "/v1/models/{version}", "one of them: from what data, with which figures, why promoted or rejected"},
	{"POST", "/v1/models/{version}/promote", "let it serve"},
	{"POST", "/v1/models/rollback", "let the version before serve again"},
	{"POST", "/v1/feedback", "labels of whole responses, to learn from"},
	{"GET", "/v1/feedback", "what the labels add up to"},
	{"GET", "/v1/feedback/candidates", "the responses whose label would teach most"},
	{"DELETE", "/v1/feedback/{id}", "erase all that is kept of a response"},
	{"GET", "/v1/training", "the training that runs, or what it waits for"},
	{"POST", "/v1/training", "start one by hand"},
	{"GET", "/v1/events", "what happens to models and trainings, as server-sent events"},
	{"GET", "/livez", "the process answers"},
	{"GET", "/readyz", "it can score: 200, else 503 with what is missing"},
	{"GET", "/metrics", "Prometheus metrics"},
	{"GET", "/openapi.json", "this interface as OpenAPI 3.1"},
}

func (s *Server) index(w http.ResponseWriter, r *http.Request) error {
	return s.writeJSON(w, r, http.StatusOK, map[string]any{"name": "assay", "endpoints": slices.Concat(endpoints, s.foreign)})
}
