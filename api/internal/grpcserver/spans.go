package grpcserver

import (
	"google.golang.org/grpc/codes"

	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"assay/api/internal/exchange"
	"assay/internal/trace"
)

// spanName is the name of the span of a call until it is known to be one of the
// service; "" for probes, which would be most of the traces.
func spanName(method string) string {
	if isProbe(method) {
		return ""
	}
	return exchange.UnmatchedRoute
}

// endSpan ends the span of a call.
func endSpan(x *exchange.Exchange, code codes.Code) {
	if !x.Span.IsRecording() {
		return
	}
	x.Span.SetName(x.Route)
	x.Span.SetAttributes(semconv.RPCSystemNameGRPC, semconv.RPCMethod(x.Route), semconv.RPCResponseStatusCode(code.String()))
	switch code {
	case codes.Unknown, codes.DeadlineExceeded, codes.Unimplemented, codes.Internal, codes.Unavailable, codes.DataLoss:
		trace.Fail(x.Span, code.String())
	}
	x.Span.End()
}
