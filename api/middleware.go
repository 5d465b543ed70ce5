package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/rs/zerolog"

	"assay/api/access"
	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
	"assay/rewardmodel"
)

// observer begins the exchange of each request, and logs and counts it.
type observer struct {
	metrics  *metrics
	log      zerolog.Logger
	memory   *rewardmodel.Memory
	settings *exchange.Settings
	drained  <-chan struct{}
}

func (o observer) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		memory := o.memory.Open()
		defer memory.Close()
		client := exchange.Identity{RequestID: r.Header.Get("X-Request-Id"), Traceparent: r.Header.Get("Traceparent"), Tracestate: r.Header.Get("Tracestate")}
		ctx, x := exchange.Begin(r.Context(), client, spanName(r), memory, o.settings)
		r = r.WithContext(ctx)
		w.Header().Set("X-Request-Id", x.ID)
		secureHeaders(w.Header())
		// A chunked body may have come with a Content-Length too, which net/http removes. A
		// proxy that goes by the latter would see another end of this request (request
		// smuggling), so nothing after it is read (RFC 9112, section 6.1).
		if isClosed(o.drained) || r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		wrapped := middleware.NewWrapResponseWriter(w, r.ProtoMajor)

		defer x.End()
		o.metrics.inFlight.Inc()
		defer func() {
			o.metrics.inFlight.Dec()
			route := cmp.Or(chi.RouteContext(r.Context()).RoutePattern(), x.Route, exchange.UnmatchedRoute)
			status := wrapped.Status()
			if status == 0 {
				status = http.StatusOK // what net/http sends when a handler writes nothing
			}
			took := time.Since(start)
			o.metrics.observe(ctx, route, r.Method, status, x.BytesIn, took)
			o.logAccess(r, x, route, status, wrapped.BytesWritten(), took)
			endSpan(x, route, r.Method, status)
		}()
		next.ServeHTTP(wrapped, r)
	})
}

func (o observer) logAccess(r *http.Request, x *exchange.Exchange, route string, status, bytesOut int, took time.Duration) {
	entry := o.log.WithLevel(accessLevel(route, status))
	entry.Str("request_id", x.ID).
		Str("method", r.Method).
		Str("route", route).
		Int("status", status).
		Int64("bytes_in", x.BytesIn).
		Int("bytes_out", bytesOut).
		Float64("duration_ms", float64(took.Microseconds())/1000).
		Str("remote", r.RemoteAddr)
	if route == exchange.UnmatchedRoute {
		entry.Str("path", rewardmodel.Shorten(r.URL.Path))
	}
	x.Log(entry)
}

// accessLevel returns debug for probes and for the files of the console, and warning or error for failures of the
// service.
func accessLevel(route string, status int) zerolog.Level {
	switch {
	case status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return zerolog.WarnLevel
	case status >= http.StatusInternalServerError:
		return zerolog.ErrorLevel
	case isProbe(route), strings.HasPrefix(route, "/console/") && strings.HasSuffix(route, "/{file}"):
		return zerolog.DebugLevel
	}
	return zerolog.InfoLevel
}

// isProbe reports whether a path, or a route, is one that monitoring requests.
func isProbe(path string) bool { return path == "/livez" || path == "/readyz" || path == "/metrics" }

// recoverPanics responds 500 for a handler that panics. Handlers write their body
// in one piece at the end, so nothing has been sent by then; a started event
// stream ignores what is sent.
func recoverPanics(log zerolog.Logger) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer func() {
				value := recover()
				if value == nil {
					return
				}
				if value == http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
					panic(value) // net/http then closes the connection
				}
				log.Error().Str("request_id", exchange.Of(r).ID).Str("panic", fmt.Sprint(value)).Bytes("stack", debug.Stack()).Msg("handler panicked")
				httpjson.Fail(w, r, failure.Panic(value))
			}()
			next.ServeHTTP(w, r)
		})
	}
}

// rejectForeignOrigins prevents web pages of other origins from posting through a
// visitor's browser (RFC 6454; Sec-Fetch-Site). Other clients send neither header
// and pass.
func rejectForeignOrigins(guard *http.CrossOriginProtection) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return httpjson.Handler(func(w http.ResponseWriter, r *http.Request) error {
			if err := guard.Check(r); err != nil {
				return failure.ForbiddenOrigin(err)
			}
			next.ServeHTTP(w, r)
			return nil
		})
	}
}

// secureHeaders keeps browsers from rendering, caching or embedding a response. Pages
// that need more replace them. There is no Strict-Transport-Security: it would apply to
// every service on the same host name, whatever its port.
func secureHeaders(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// rejectForeignHosts keeps a web page whose own host name resolves to a loopback address
// (DNS rebinding) from reading what callers on the same machine may read without a
// token, such as the metrics. Probes reveal nothing.
func (rt routes) rejectForeignHosts(next http.Handler) http.Handler {
	return httpjson.Handler(func(w http.ResponseWriter, r *http.Request) error {
		c := access.CallerOf(r)
		if rt.authorizer.MayBeRebound(c) && !rt.trustsHost(c.Host) && r.URL.Path != "/livez" && r.URL.Path != "/readyz" {
			return failure.ForbiddenHost(c.Host)
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// trustsHost reports whether an origin of Config.TrustedOrigins has the host.
func (rt routes) trustsHost(host string) bool {
	return slices.Contains(rt.cfg.TrustedOrigins, "http://"+host) || slices.Contains(rt.cfg.TrustedOrigins, "https://"+host)
}

// orNotEnabled returns h, or a handler that responds 501 where its backend is
// missing.
func orNotEnabled(enabled bool, h httpjson.Handler) httpjson.Handler {
	if enabled {
		return h
	}
	return func(http.ResponseWriter, *http.Request) error { return failure.NotEnabled() }
}

const timeoutHeader = "X-Request-Timeout"

// withTimeout ends a request that takes longer than its client or the service
// allows.
func withTimeout(h httpjson.Handler) httpjson.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		timeout, err := parseTimeout(r.Header.Get(timeoutHeader), exchange.Of(r).RequestTimeout)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		return h(w, r.WithContext(ctx))
	}
}

// parseTimeout parses the timeout that a client requests: seconds ("30",
// "0.5") or a Go duration ("1m30s"), at most limit. The default is limit.
func parseTimeout(value string, limit time.Duration) (time.Duration, error) {
	if value == "" {
		return limit, nil
	}
	timeout, err := time.ParseDuration(value)
	decimal := strings.Trim(value, "0123456789.") == "" // not INF, 0x10 or 1e3, which ParseFloat reads as well
	if seconds, notNumber := strconv.ParseFloat(value, 64); decimal && notNumber == nil {
		// Compared as seconds: a large number would overflow a duration.
		timeout, err = 0, nil
		if seconds > 0 {
			timeout = time.Duration(min(seconds, limit.Seconds()) * float64(time.Second))
		}
	}
	if err != nil || timeout <= 0 {
		return 0, failure.Invalid(timeoutHeader, "%.50q is not a timeout; send seconds, such as 30 or 0.5, or a duration such as 1m30s", value)
	}
	return min(timeout, limit), nil
}

// withPriority reads the priority of a scoring request.
func withPriority(h httpjson.Handler) httpjson.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := exchange.Of(r).Prioritize(r.Header.Get(exchange.PriorityHeader)); err != nil {
			return err
		}
		return h(w, r)
	}
}
