package trace

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
)

func TestContinue(t *testing.T) {
	tracer := NewTracer(sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample()))))
	for name, test := range map[string]struct {
		traceparent, tracestate string
		continues, records      bool
		state                   string
	}{
		"no header":          {records: true},
		"invalid":            {traceparent: "00-" + traceID + "-01", records: true},
		"sampled":            {traceparent: "00-" + traceID + "-" + spanID + "-01", tracestate: "a=1,b=2", continues: true, records: true, state: "a=1,b=2"},
		"random trace id":    {traceparent: "00-" + traceID + "-" + spanID + "-03", continues: true, records: true},
		"not sampled":        {traceparent: "00-" + traceID + "-" + spanID + "-00", continues: true},
		"invalid tracestate": {traceparent: "00-" + traceID + "-" + spanID + "-01", tracestate: "=", continues: true, records: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, span := tracer.Continue(t.Context(), "request", oteltrace.SpanKindServer, test.traceparent, test.tracestate)
			defer span.End()
			require.Equal(t, test.records, span.IsRecording())
			require.Equal(t, test.continues, span.SpanContext().TraceID().String() == traceID)
			require.Equal(t, test.state, span.SpanContext().TraceState().String())
			_, child := Begin(ctx, "child")
			defer child.End()
			require.Equal(t, test.records, child.IsRecording())
			if !test.records {
				return
			}
			header := Traceparent(span)
			require.True(t, Valid(header))
			require.True(t, strings.HasSuffix(header, "-01"), header)
			require.Equal(t, span.SpanContext().SpanID(), child.(sdktrace.ReadOnlySpan).Parent().SpanID())
			parent := span.(sdktrace.ReadOnlySpan).Parent()
			require.Equal(t, test.continues, parent.IsRemote())
			if test.continues {
				require.Equal(t, spanID, parent.SpanID().String())
			}
		})
	}
}

// Without a Tracer, a request without a trace costs no allocation, and one with a trace
// only what its exemplar needs.
func TestNoTracerAllocatesNothing(t *testing.T) {
	var none *Tracer
	ctx := context.Background()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		ctx, span := none.Continue(ctx, "request", oteltrace.SpanKindServer, "", "")
		_, child := Begin(ctx, "child")
		child.End()
		span.End()
	}))
	header := "00-" + traceID + "-" + spanID + "-01"
	exemplar := testing.AllocsPerRun(100, func() { NewContext(ctx, header) })
	require.Equal(t, exemplar, testing.AllocsPerRun(100, func() {
		none.Continue(ctx, "request", oteltrace.SpanKindServer, header, "")
	}))
}
