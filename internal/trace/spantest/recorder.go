// Package spantest records the spans of tests.
package spantest

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"assay/internal/trace"
)

// Recorder records the spans of Tracer.
type Recorder struct {
	*tracetest.SpanRecorder
	Tracer *trace.Tracer
}

// New returns a recorder of all traces, except those that a client does not sample.
func New(tb testing.TB) Recorder { return Sampled(tb, sdktrace.ParentBased(sdktrace.AlwaysSample())) }

// Sampled returns a recorder of the traces that sampler selects.
func Sampled(tb testing.TB, sampler sdktrace.Sampler) Recorder {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), sdktrace.WithSpanProcessor(spans))
	tb.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	return Recorder{spans, trace.NewTracer(provider)}
}

// Named returns the spans of a name that have ended, in the order of their ends.
func (r Recorder) Named(name string) (named []sdktrace.ReadOnlySpan) {
	for _, span := range r.Ended() {
		if span.Name() == name {
			named = append(named, span)
		}
	}
	return named
}

// Attributes returns attributes as text.
func Attributes(attributes []attribute.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range attributes {
		out[string(a.Key)] = a.Value.String()
	}
	return out
}
