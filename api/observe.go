package api

import (
	"cmp"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/rs/zerolog"

	"assay/rewardmodel"
)

// unmatched is the route label of requests that no pattern took.
const unmatched = "unmatched"

// observe gives a request its id, and logs and counts it once it is answered.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		ctx, x := withExchange(r.Context(), r.Header.Get("X-Request-Id"), r.Header.Get("Traceparent"))
		r = r.WithContext(ctx)
		x.memory = s.parts.Memory.Open()
		defer x.memory.Close()
		w.Header().Set("X-Request-Id", x.id)
		if s.draining() {
			w.Header().Set("Connection", "close")
		}
		wrapped := middleware.NewWrapResponseWriter(w, r.ProtoMajor)

		s.metrics.inFlight.Inc()
		defer func() {
			s.metrics.inFlight.Dec()
			route := cmp.Or(chi.RouteContext(r.Context()).RoutePattern(), x.route, unmatched)
			status := wrapped.Status()
			if status == 0 {
				status = http.StatusOK // what net/http sends when a handler writes nothing
			}
			took := time.Since(start)
			s.metrics.observe(route, r.Method, status, x.bytesIn, took)
			s.access(r, x, route, status, wrapped.BytesWritten(), took)
		}()
		next.ServeHTTP(wrapped, r)
	})
}

func (s *Server) access(r *http.Request, x *exchange, route string, status, bytesOut int, took time.Duration) {
	event := s.log.WithLevel(accessLevel(route, status))
	event.Str("request_id", x.id).
		Str("method", r.Method).
		Str("route", route).
		Int("status", status).
		Int64("bytes_in", x.bytesIn).
		Int("bytes_out", bytesOut).
		Float64("duration_ms", float64(took.Microseconds())/1000).
		Str("remote", r.RemoteAddr)
	if route == unmatched {
		event.Str("path", rewardmodel.Shorten(r.URL.Path))
	}
	x.describe(event)
}

// accessLevel keeps probes quiet and makes our own failures stand out.
func accessLevel(route string, status int) zerolog.Level {
	switch {
	case status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return zerolog.WarnLevel
	case status >= http.StatusInternalServerError:
		return zerolog.ErrorLevel
	case route == "/livez", route == "/readyz", route == "/metrics":
		return zerolog.DebugLevel
	}
	return zerolog.InfoLevel
}

// recoverPanics answers 500 for a handler that panics. The handlers write their body
// in one piece at the end, so nothing has been sent by then; what a stream of
// events is sent, it ignores.
func (s *Server) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			value := recover()
			if value == nil {
				return
			}
			if value == http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
				panic(value) // net/http's own way to drop a connection
			}
			s.log.Error().Str("request_id", exchangeOf(r).id).Str("panic", fmt.Sprint(value)).Bytes("stack", debug.Stack()).Msg("handler panicked")
			s.fail(w, r, errPanic(value))
		}()
		next.ServeHTTP(w, r)
	})
}

// refuseForeignOrigin keeps web pages of other origins from posting with the
// help of a visitor's browser (RFC 6454; Sec-Fetch-Site). Other clients send
// neither header and pass.
func (s *Server) refuseForeignOrigin(guard *http.CrossOriginProtection) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return s.endpoint(func(w http.ResponseWriter, r *http.Request) error {
			if err := guard.Check(r); err != nil {
				return errForbiddenOrigin(err)
			}
			next.ServeHTTP(w, r)
			return nil
		})
	}
}
