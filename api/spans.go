package api

import (
	"net/http"
	"strconv"

	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"assay/api/internal/exchange"
	"assay/internal/trace"
)

// spanName is the name of the span of a request until its route is known; "" for
// probes, which would be most of the traces.
func spanName(r *http.Request) string {
	if isProbe(r.URL.Path) {
		return ""
	}
	return methodLabel(r.Method)
}

// endSpan ends the span of a request. It has the route that matched, not the path,
// which has ids of responses.
func endSpan(x *exchange.Exchange, route, method string, status int) {
	if !x.Span.IsRecording() {
		return
	}
	method = methodLabel(method)
	x.Span.SetName(method + " " + route)
	x.Span.SetAttributes(semconv.HTTPRequestMethodKey.String(method), semconv.HTTPRoute(route), semconv.HTTPResponseStatusCode(status))
	if status >= http.StatusInternalServerError {
		trace.Fail(x.Span, strconv.Itoa(status))
	}
	x.Span.End()
}
