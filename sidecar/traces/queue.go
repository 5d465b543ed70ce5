package traces

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// What becomes of spans: the values of the label outcome.
const (
	outcomeExported = "exported"
	outcomeFailed   = "failed"
	outcomeDropped  = "dropped"
)

// newMetrics registers the counter of spans.
func newMetrics(reg prometheus.Registerer) (*prometheus.CounterVec, error) {
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "assay_trace_spans_total",
		Help: "Spans of sampled traces, by outcome: exported, failed (the collector did not accept them) or dropped (the queue was full). Of processes that export traces.",
	}, []string{"outcome"})
	if err := reg.Register(spans); err != nil {
		return nil, err
	}
	for _, outcome := range []string{outcomeExported, outcomeFailed, outcomeDropped} {
		spans.WithLabelValues(outcome) // an increase of a series that does not exist yet shows in no query
	}
	return spans, nil
}

// queueVariable sets the size of the queue in spans.
const queueVariable = "OTEL_BSP_MAX_QUEUE_SIZE"

// queueSize is the maximum number of spans that are not exported yet.
func queueSize() (int64, error) {
	value := os.Getenv(queueVariable)
	if value == "" {
		return sdktrace.DefaultMaxQueueSize, nil
	}
	size, err := strconv.ParseInt(value, 10, 32)
	if err != nil || size < 1 {
		return 0, fmt.Errorf("%s is %.40q; give a number of spans, at least 1", queueVariable, value)
	}
	return size, nil
}

// boundedQueue bounds a batch processor by the spans that are not exported yet, which
// are at least those in the queue of the processor. It is the one that drops spans, since
// the processor does not report how many it drops.
type boundedQueue struct {
	sdktrace.SpanProcessor
	limit   int64
	pending atomic.Int64
	spans   *prometheus.CounterVec
}

// OnEnd implements sdktrace.SpanProcessor. It does not block.
func (q *boundedQueue) OnEnd(span sdktrace.ReadOnlySpan) {
	if !span.SpanContext().IsSampled() {
		return
	}
	if q.pending.Add(1) > q.limit {
		q.pending.Add(-1)
		q.spans.WithLabelValues(outcomeDropped).Inc()
		return
	}
	q.SpanProcessor.OnEnd(span)
}

// done records that n spans were exported, or failed to be.
func (q *boundedQueue) done(n int, outcome string) {
	q.pending.Add(-int64(n))
	q.spans.WithLabelValues(outcome).Add(float64(n))
}
