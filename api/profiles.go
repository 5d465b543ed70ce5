package api

import (
	"net/http"
	"net/http/pprof"

	"github.com/go-chi/chi/v5"

	"assay/api/access"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
)

// mountProfiles adds the profiles of net/http/pprof below /debug/pprof/. They reveal how the process uses its memory and
// what its goroutines do, and recording one costs CPU time, so they need the scope admin. Unlike the endpoints of the
// service, they are not for anonymous callers even with Config.Insecure: the address of health and metrics is usually
// reachable by more machines than the service. The command line (cmdline) is not served, because it may contain secrets.
func (rt routes) mountProfiles(r chi.Router) {
	for pattern, profile := range map[string]http.HandlerFunc{
		"/debug/pprof/":          pprof.Index,
		"/debug/pprof/{profile}": pprof.Index,
		"/debug/pprof/profile":   pprof.Profile,
		"/debug/pprof/trace":     pprof.Trace,
	} {
		serve := rt.authorizer.Require(access.ScopeAdmin, func(w http.ResponseWriter, r *http.Request) error {
			profile(w, r)
			return nil
		})
		r.Get(pattern, httpjson.Handler(func(w http.ResponseWriter, r *http.Request) error {
			if why := access.NonLocal(access.CallerOf(r)); rt.parts.Tokens == nil && why != "" {
				return failure.Unauthorized(string(access.ScopeAdmin), why+", and the service has no tokens to identify its sender; request the profile on the machine of the service", false)
			}
			return serve(w, r)
		}).ServeHTTP)
	}
}
