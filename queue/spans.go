package queue

import (
	"context"
	"net/http"

	"assay/internal/trace"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// messagingSystem is messaging.system of all spans.
const messagingSystem = "nats"

// endRequestSpan ends the span of a request that was replied to, with err if it failed.
func endRequestSpan(span oteltrace.Span, subject string, err error) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(semconv.MessagingSystemKey.String(messagingSystem), semconv.MessagingDestinationName(subject))
	if err != nil {
		if why := describe(err); why.Code >= http.StatusInternalServerError {
			trace.Fail(span, why.Name)
		}
	}
	span.End()
}

// beginSpan starts the span of a delivery.
func (w *worker) beginSpan(ctx context.Context, d *delivery) (context.Context, oteltrace.Span) {
	headers := d.msg.Headers()
	return w.cfg.Tracer.Continue(ctx, "process "+SubjectResponses, oteltrace.SpanKindConsumer,
		traceHeader(headers, HeaderTraceparent), traceHeader(headers, HeaderTracestate))
}

// endSpan ends the span of a delivery.
func (d *delivery) endSpan(span oteltrace.Span, o outcome) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(semconv.MessagingSystemKey.String(messagingSystem), semconv.MessagingDestinationName(d.msg.Subject()),
		semconv.MessagingOperationTypeProcess, attributeDeliveries.Int64(int64(d.meta.NumDelivered)), trace.Outcome.String(string(o)))
	switch o {
	case outcomeDeadLettered, outcomeOverloaded, outcomeRetry, outcomeStoreFailed:
		trace.Fail(span, string(o))
	}
	span.End()
}

// attributeDeliveries is how often a response was delivered.
const attributeDeliveries = attribute.Key("assay.deliveries")

// beginPublish starts the span of storing msg, the result of a response, whose headers
// then have it as the parent of what the subscriber does. Without a span, they have the
// trace context of the response.
func (d *delivery) beginPublish(ctx context.Context, msg *nats.Msg, stream string) (context.Context, oteltrace.Span) {
	d.copyTrace(msg.Header)
	ctx, span := trace.Begin(ctx, "publish "+stream, oteltrace.WithSpanKind(oteltrace.SpanKindProducer))
	if span.IsRecording() {
		msg.Header.Set(HeaderTraceparent, trace.Traceparent(span))
		span.SetAttributes(semconv.MessagingSystemKey.String(messagingSystem), semconv.MessagingDestinationName(msg.Subject), semconv.MessagingOperationTypeSend)
	}
	return ctx, span
}
