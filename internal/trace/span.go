package trace

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// scope names assay as the source of its spans.
const scope = "assay"

// Tracer starts the spans of requests and of training runs; [Begin] starts their
// children. A nil Tracer starts none and allocates nothing.
type Tracer struct{ tracer oteltrace.Tracer }

// NewTracer returns a Tracer whose spans p processes.
func NewTracer(p oteltrace.TracerProvider) *Tracer { return &Tracer{p.Tracer(scope)} }

// Continue starts a span and returns it in a context. The span continues the trace of
// a traceparent and a tracestate header, or starts a trace if traceparent is not valid.
// The trace is also that of [NewContext], whether or not there is a Tracer.
func (t *Tracer) Continue(ctx context.Context, name string, kind oteltrace.SpanKind, traceparent, tracestate string) (context.Context, oteltrace.Span) {
	if t == nil {
		return NewContext(ctx, traceparent), none()
	}
	if Valid(traceparent) {
		ctx = oteltrace.ContextWithRemoteSpanContext(ctx, remote(traceparent, tracestate))
	}
	ctx, span := t.tracer.Start(ctx, name, oteltrace.WithSpanKind(kind))
	if span.IsRecording() {
		traceparent = Traceparent(span)
	}
	return NewContext(ctx, traceparent), span
}

// Begin starts a child of the span in ctx and returns it in a context. If the span in
// ctx does not record, it returns ctx and a span that does not record either.
func Begin(ctx context.Context, name string, options ...oteltrace.SpanStartOption) (context.Context, oteltrace.Span) {
	parent := oteltrace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, none()
	}
	return parent.TracerProvider().Tracer(scope).Start(ctx, name, options...)
}

// Fail marks a span as failed. reason is one of a fixed set, never the text of an
// error, which may quote a response.
func Fail(span oteltrace.Span, reason string) {
	span.SetStatus(codes.Error, "")
	span.SetAttributes(semconv.ErrorTypeKey.String(reason))
}

// The attributes of spans that OpenTelemetry has no name for.
const (
	Responses    = attribute.Key("assay.responses")     // of a request
	Utterances   = attribute.Key("assay.utterances")    // of all responses of a request
	Tokens       = attribute.Key("assay.tokens")        // that the model computes, without those of cached utterances
	Priority     = attribute.Key("assay.priority")      // interactive or bulk
	ModelVersion = attribute.Key("assay.model.version") // that scored
	RequestID    = attribute.Key("assay.request.id")    // also in the log
	Outcome      = attribute.Key("assay.outcome")       // of a streamed response or a training run
)

// Traceparent returns the traceparent header of a span.
func Traceparent(span oteltrace.Span) string {
	c := span.SpanContext()
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + c.TraceFlags().String()
}

// remote is the span of valid headers. A tracestate that is not valid is ignored.
func remote(traceparent, tracestate string) oteltrace.SpanContext {
	parts := strings.Split(traceparent, "-")
	trace, _ := oteltrace.TraceIDFromHex(parts[1])
	span, _ := oteltrace.SpanIDFromHex(parts[2])
	state, _ := oteltrace.ParseTraceState(tracestate)
	config := oteltrace.SpanContextConfig{TraceID: trace, SpanID: span, TraceState: state, Remote: true}
	if sampled(traceparent) {
		config.TraceFlags = oteltrace.FlagsSampled
	}
	return oteltrace.NewSpanContext(config)
}

// none is a span that does not record.
func none() oteltrace.Span { return oteltrace.SpanFromContext(context.Background()) }
