// Package trace carries the trace of a request, as its W3C traceparent header
// identifies it, to the metrics that the request changes, and starts the spans with
// which a [Tracer] continues it. No attribute of a span has text of a request.
package trace

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Valid reports whether header is a traceparent header: "00-<32 hex>-<16 hex>-<2
// hex>" with lowercase digits, of which neither the trace nor the span is all zero.
func Valid(header string) bool {
	if header == "" { // most requests: allocate nothing
		return false
	}
	parts := strings.Split(header, "-")
	if len(parts) != 4 || parts[0] == "ff" {
		return false
	}
	for i, length := range [4]int{2, 32, 16, 2} {
		if len(parts[i]) != length || strings.Trim(parts[i], "0123456789abcdef") != "" {
			return false
		}
	}
	return strings.Trim(parts[1], "0") != "" && strings.Trim(parts[2], "0") != ""
}

type contextKey struct{}

// NewContext adds the trace of a traceparent header to ctx. It returns ctx if the
// header is not valid, or if the trace is not sampled: then no tracing system has it,
// and an exemplar would lead nowhere.
func NewContext(ctx context.Context, header string) context.Context {
	if !Valid(header) || !sampled(header) {
		return ctx
	}
	_, rest, _ := strings.Cut(header, "-")
	id, _, _ := strings.Cut(rest, "-")
	return context.WithValue(ctx, contextKey{}, prometheus.Labels{"trace_id": id})
}

// sampled reports whether the lowest bit of the flags is set.
func sampled(header string) bool {
	return strings.IndexByte("13579bdf", header[len(header)-1]) >= 0
}

// Observe observes value, with the trace in ctx, if any, as its exemplar.
func Observe(ctx context.Context, o prometheus.Observer, value float64) {
	labels, ok := ctx.Value(contextKey{}).(prometheus.Labels)
	if with, can := o.(prometheus.ExemplarObserver); ok && can {
		with.ObserveWithExemplar(value, labels)
		return
	}
	o.Observe(value)
}
