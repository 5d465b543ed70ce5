// Package exchange holds the state of one HTTP request or gRPC call: its
// identity, what it holds in memory, the limits that apply to it, and what the
// access log reports about it. The state travels in the context, so that
// handlers are plain functions.
package exchange

import (
	"context"
	"net/http"

	"github.com/rs/zerolog"
	oteltrace "go.opentelemetry.io/otel/trace"

	"assay/api/internal/failure"
	"assay/api/internal/quota"
	"assay/internal/errorcode"
	"assay/internal/trace"
	"assay/rewardmodel"
)

// Exchange is the state of one request or call. One goroutine uses it.
type Exchange struct {
	ID            string                   // request id: the client's, or generated
	Traceparent   string                   // W3C trace context: of Span if it records, else the client's; empty without a valid one
	Span          oteltrace.Span           // of the request or call; it does not record without Settings.Tracer
	Route         string                   // overrides the matched route in logs and metrics
	BytesIn       int64                    // body bytes read from the connection
	Caller        string                   // name of the token, or why the caller needs none
	Quota         *quota.Quota             // of the caller; nil: no limits of its own
	Via           string                   // how the caller identified itself: token, session, certificate, loopback or anonymous
	Subject       string                   // what the request changes, for the audit log: a version, a response id or a training run
	Rater         string                   // whose label the request withdraws, for the audit log
	Responses     int                      // responses that the request asks to score
	Priority      rewardmodel.Priority     // that the client asked for
	Items         int                      // labels that the request holds
	Model         rewardmodel.ModelInfo    // that scored for a protocol of another project
	Err           error                    // why the request failed, for the log only
	Memory        *rewardmodel.Reservation // what the request holds until its response is sent
	EncodeFailure failure.Encoder          // nil: assay's own error format
	*Settings

	end func() // of the request in Quota; nil: none has begun
}

type contextKey struct{}

// Of returns the exchange of a request.
func Of(r *http.Request) *Exchange { return From(r.Context()) }

// From returns the exchange of a context, an empty one if the context has none.
func From(ctx context.Context) *Exchange {
	if x, ok := ctx.Value(contextKey{}).(*Exchange); ok {
		return x
	}
	return &Exchange{Settings: &Settings{}}
}

// Identity is what a client sends to identify a request and its trace, if anything.
type Identity struct{ RequestID, Traceparent, Tracestate string }

// Begin starts an exchange and adds it and its trace to the context. operation is the
// name of its span; "" for a probe, which has none. The caller ends the span.
func Begin(ctx context.Context, client Identity, operation string, memory *rewardmodel.Reservation, settings *Settings) (context.Context, *Exchange) {
	x := &Exchange{ID: validRequestID(client.RequestID), Memory: memory, Settings: settings}
	if trace.Valid(client.Traceparent) {
		x.Traceparent = client.Traceparent
	}
	tracer := settings.Tracer
	if operation == "" {
		tracer = nil
	}
	ctx, x.Span = tracer.Continue(context.WithValue(ctx, contextKey{}, x), operation, oteltrace.SpanKindServer, client.Traceparent, client.Tracestate)
	if x.Span.IsRecording() {
		x.Traceparent = trace.Traceparent(x.Span)
		x.Span.SetAttributes(trace.RequestID.String(x.ID))
	}
	return ctx, x
}

// Admit names the caller, and counts the request in its quota until End.
func (x *Exchange) Admit(caller string, q *quota.Quota) (err error) {
	x.Caller, x.Quota = caller, q
	x.end, err = q.Begin(x.RetryAfter)
	return err
}

// End ends the request in the quota of its caller.
func (x *Exchange) End() {
	if x.end != nil {
		x.end()
	}
}

// Limits returns the limits that apply now, with those of the caller.
func (x *Exchange) Limits() Limits {
	l := x.Settings.Limits()
	if own := x.Quota.Limits().MaxBody; own > 0 {
		l.MaxBody = min(l.MaxBody, own)
	}
	return l
}

// Fork returns a copy of x, and a context with it, which charges another reservation.
func (x *Exchange) Fork(ctx context.Context, memory *rewardmodel.Reservation) (context.Context, *Exchange) {
	fork := *x
	fork.Memory = memory
	return context.WithValue(ctx, contextKey{}, &fork), &fork
}

// Failure maps an error of this exchange to the error response of its client.
func (x *Exchange) Failure(err error) failure.Failure {
	return failure.Of(err, failure.Details{RequestID: x.ID, RetryAfter: x.RetryAfter, RequestTimeout: x.RequestTimeout})
}

// Unavailable asks the client to retry after Settings.RetryAfter, for one of the
// codes of 503.
func (s *Settings) Unavailable(code errorcode.Code, format string, args ...any) error {
	return failure.Unavailable(code, s.RetryAfter, format, args...)
}

// Prioritize keeps the priority that the client asked for in the header
// [PriorityHeader], if any.
func (x *Exchange) Prioritize(value string) (err error) {
	x.Priority, err = rewardmodel.ParsePriority(PriorityHeader, value)
	return err
}

// PriorityHeader is the header, or the gRPC metadata key, with the priority of a
// scoring request.
const PriorityHeader = "X-Priority"

// The headers of responses that name the model in the protocols of other projects, as on NATS.
const (
	VersionHeader  = "Assay-Model-Version"
	NumericsHeader = "Assay-Numerics"
)

// Log completes an entry of the access log and writes it.
func (x *Exchange) Log(entry *zerolog.Event) {
	if x.Caller != "" {
		entry.Str("by", x.Caller)
	}
	if x.Responses > 0 {
		entry.Int("responses", x.Responses)
	}
	if x.Items > 0 {
		entry.Int("items", x.Items)
	}
	if x.Traceparent != "" {
		entry.Str("traceparent", x.Traceparent)
	}
	if x.Err != nil {
		entry.Str("error", rewardmodel.Shorten(x.Err.Error()))
	}
	entry.Msg("request")
}
