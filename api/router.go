package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"assay/api/access"
	"assay/api/compat"
	"assay/api/console"
	"assay/api/internal/adapter"
	"assay/api/internal/eventlog"
	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
	"assay/api/oip"
	"assay/rewardmodel"
)

// routes builds the HTTP routers of a server.
type routes struct {
	cfg        Config
	parts      Parts
	registry   *prometheus.Registry
	events     *eventlog.Log
	cache      *fleetCache
	drained    <-chan struct{}
	authorizer access.Authorizer
	audit      *access.AuditLog
	console    *console.Files
	health     health
	observer   observer
	guard      *http.CrossOriginProtection
	sockets    *sockets
}

// main returns the whole service.
func (rt routes) main() http.Handler {
	protocols := slices.Concat(compat.Routes(rt.backend(), rt.health.readiness), oip.Routes(rt.backend(), rt.health.readiness))
	encoders := map[string]failure.Encoder{}
	for _, p := range protocols {
		encoders[p.Pattern] = p.EncodeFailure
	}
	r := rt.base(encoders)
	get(r, "/", pageOrIndex(rt.console.Page, index(protocols)))
	rt.mountConsole(r)
	get(r, "/openapi.json", openAPI)
	rt.mountHealth(r)
	r.Post("/v1/score", rt.scoring(score(rt.backend().scorer)).ServeHTTP)
	rt.mountLive(r)
	models := modelEndpoints{models: rt.parts.Models, registry: rt.parts.Registry, promotions: rt.parts.Promotions, cache: rt.cache}
	get(r, "/v1/models", rt.reading(models.list))
	get(r, "/v1/models/{version}", rt.reading(models.show))
	rt.mountLearning(r, models)
	for _, p := range protocols {
		rt.mountProtocol(r, p)
	}
	return r
}

// ops returns health, metrics and profiles only.
func (rt routes) ops() http.Handler {
	r := rt.base(nil)
	rt.mountHealth(r)
	rt.mountProfiles(r)
	return r
}

// mountLearning adds the endpoints that turn labels into models. Only callers
// that may use an endpoint learn that its backend is missing.
func (rt routes) mountLearning(r chi.Router, models modelEndpoints) {
	p := rt.parts
	feedback := func(enabled bool, h httpjson.Handler) httpjson.Handler {
		return rt.authorizer.Require(access.ScopeFeedback, withTimeout(orNotEnabled(enabled, h)))
	}
	admin := func(enabled bool, h httpjson.Handler) http.HandlerFunc {
		return rt.authorizer.Require(access.ScopeAdmin, withTimeout(orNotEnabled(enabled, h))).ServeHTTP
	}
	labels := feedbackEndpoints{feedback: p.Feedback, view: p.FeedbackView, limits: rt.cfg.FeedbackLimits, authorizer: rt.authorizer, checks: rt.health.checks, cache: rt.cache}
	training := trainingEndpoints{trainer: p.Trainer, authorizer: rt.authorizer, cache: rt.cache}
	streams := newEventStreams(rt.authorizer, rt.drained, rt.cfg.MaxEventStreams)
	events := eventEndpoints{log: rt.events, streams: streams}
	scored := scoredEndpoints{held: p.Scored, streams: streams}
	r.Post("/v1/feedback", feedback(p.Feedback != nil, rt.audit.Changes(access.ActionLabel, labels.add)).ServeHTTP)
	get(r, "/v1/feedback", feedback(p.FeedbackView != nil, labels.stats))
	get(r, "/v1/feedback/candidates", feedback(p.FeedbackView != nil, labels.candidates))
	get(r, "/v1/feedback/{id}/labels", feedback(p.FeedbackView != nil, labels.labels))
	r.Delete("/v1/feedback/{id}/labels", feedback(p.Feedback != nil, rt.audit.Changes(access.ActionWithdraw, labels.withdraw)).ServeHTTP)
	r.Delete("/v1/feedback/{id}", admin(p.Feedback != nil, rt.audit.Changes(access.ActionErase, labels.erase)))
	r.Post("/v1/models/{version}/promote", admin(p.Promotions != nil, rt.audit.Changes(access.ActionPromote, models.promote)))
	r.Post("/v1/models/rollback", admin(p.Promotions != nil, rt.audit.Changes(access.ActionRollback, models.rollBack)))
	get(r, "/v1/training", feedback(p.Trainer != nil, training.show))
	r.Post("/v1/training", admin(p.Trainer != nil, rt.audit.Changes(access.ActionTrain, training.start)))
	r.Post("/v1/training/stop", admin(p.Trainer != nil, rt.audit.Changes(access.ActionStop, training.stop)))
	// An event stream has no timeout.
	get(r, "/v1/events", rt.authorizer.Require(access.ScopeFeedback, orNotEnabled(p.Events != nil, events.serve)))
	get(r, "/v1/scored", rt.authorizer.Require(access.ScopeFeedback, orNotEnabled(p.Scored != nil, scored.serve)))
}

// mountLive adds the live sessions, which have no timeout.
func (rt routes) mountLive(r chi.Router) {
	score := func(h httpjson.Handler) httpjson.Handler {
		return rt.authorizer.Require(access.ScopeScore, orNotEnabled(rt.parts.Live != nil, h))
	}
	r.Post("/v1/live", withFullDuplex(score(liveEndpoint{rt.authorizer, rt.parts.Live}.serve)).ServeHTTP)
	r.Get("/v1/live", score(liveSocket{rt.authorizer, rt.parts.Live, rt.guard, rt.sockets}.serve).ServeHTTP)
}

// mountConsole adds what the console needs in addition to the API.
func (rt routes) mountConsole(r chi.Router) {
	session := access.SessionEndpoints{Authorizer: rt.authorizer}
	get(r, "/console/assets/{file}", rt.console.Asset)
	get(r, "/console/session", session.Show)
	r.Post("/console/session", rt.audit.Changes(access.ActionSessionOpen, session.Open).ServeHTTP)
	r.Delete("/console/session", rt.audit.Changes(access.ActionSessionEnd, session.End).ServeHTTP)
}

// mountProtocol adds an endpoint of another project.
func (rt routes) mountProtocol(r chi.Router, p httpjson.Route) {
	h := p.Handler
	switch p.Access {
	case httpjson.Score:
		h = rt.scoring(h)
	case httpjson.Read:
		h = rt.reading(h)
	case httpjson.Public:
	}
	h = h.WithFailures(p.EncodeFailure)
	if p.Method == http.MethodGet {
		get(r, p.Pattern, h)
		return
	}
	r.Method(p.Method, p.Pattern, h)
}

// scoring wraps an endpoint that scores.
func (rt routes) scoring(h httpjson.Handler) httpjson.Handler {
	return rt.authorizer.Require(access.ScopeScore, withTimeout(withPriority(h)))
}

// reading wraps an endpoint that describes models.
func (rt routes) reading(h httpjson.Handler) httpjson.Handler {
	return rt.authorizer.Require(access.ScopeScore, withTimeout(h))
}

// base returns a router with the middleware of every router. The order matters:
// observe is outside of recoverPanics, so that a panic is logged as the 500 that
// it becomes.
func (rt routes) base(encoders map[string]failure.Encoder) chi.Router {
	r := chi.NewRouter()
	r.Use(rt.observer.observe, recoverPanics(rt.observer.log), rt.rejectForeignHosts, rejectForeignOrigins(rt.guard))
	r.NotFound(httpjson.Handler(notFound).ServeHTTP)
	r.MethodNotAllowed(methodNotAllowed(encoders).ServeHTTP)
	return r
}

func (rt routes) mountHealth(r chi.Router) {
	get(r, "/livez", rt.health.live)
	get(r, "/readyz", rt.health.ready)
	exposition := promhttp.HandlerFor(rt.registry, promhttp.HandlerOpts{
		ErrorHandling:     promhttp.ContinueOnError,
		EnableOpenMetrics: true,
	})
	get(r, "/metrics", func(w http.ResponseWriter, r *http.Request) error {
		exposition.ServeHTTP(w, r)
		return nil
	})
}

func (rt routes) backend() backend { return backend{sourced{rt.parts.Scorer}, rt.parts.Models} }

// backend is what the protocols of other projects need of the service.
type backend struct {
	scorer Scorer
	models Models
}

// Score implements adapter.Backend.
func (b backend) Score(ctx context.Context, request rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	return b.scorer.Score(ctx, request)
}

// Models implements adapter.Backend.
func (b backend) Models(ctx context.Context) ([]adapter.Model, error) {
	serving, err := b.models.Models(ctx)
	infos := make([]adapter.Model, len(serving))
	for i, m := range serving {
		infos[i] = adapter.Model{ModelInfo: rewardmodel.ModelInfo{Name: m.Name, Version: m.Version}, Aspects: m.Aspects}
	}
	return infos, err
}

// sourced names the endpoint of each request.
type sourced struct{ Scorer }

// Score implements Scorer.
func (s sourced) Score(ctx context.Context, request rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	request.Source = "grpc"
	if c := chi.RouteContext(ctx); c != nil {
		request.Source = "http " + c.RoutePattern()
	}
	return s.Scorer.Score(ctx, request)
}

// get serves HEAD wherever it serves GET; net/http omits the body.
func get(r chi.Router, pattern string, h httpjson.Handler) {
	r.Get(pattern, h.ServeHTTP)
	r.Head(pattern, h.ServeHTTP)
}

func notFound(_ http.ResponseWriter, r *http.Request) error {
	return failure.NotFound("no endpoint at %.200q; GET / lists the endpoints", r.URL.Path)
}

// methodNotAllowed also serves OPTIONS: 204 with the methods of the path. Without
// CORS headers, browsers take that as a refusal. Failures are encoded as the
// other methods of the pattern encode them.
func methodNotAllowed(encoders map[string]failure.Encoder) httpjson.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		methods, pattern := allowedMethods(r)
		x := exchange.Of(r)
		x.Route, x.EncodeFailure = pattern, encoders[pattern]
		allow := strings.Join(append(methods, http.MethodOptions), ", ")
		w.Header().Set("Allow", allow)
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
		return failure.MethodNotAllowed(r.Method, r.URL.Path, allow)
	}
}

// allowedMethods returns the methods of a path that some route has, and its
// pattern.
func allowedMethods(r *http.Request) (methods []string, pattern string) {
	routes := chi.RouteContext(r.Context()).Routes
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		if found := routes.Find(chi.NewRouteContext(), method, r.URL.Path); found != "" {
			methods, pattern = append(methods, method), found
		}
	}
	return methods, pattern
}
