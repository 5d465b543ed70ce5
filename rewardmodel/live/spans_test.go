package live

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"

	"assay/internal/trace/spantest"
	"assay/rewardmodel"
)

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// A session has one span below the request that opened it, with its verdicts and result
// and without text.
func TestSessionSpan(t *testing.T) {
	for name, test := range map[string]struct {
		run                        func(*testing.T, *Session)
		outcome                    string
		verdicts, results, counted int
		status                     codes.Code
	}{
		"closed": {func(t *testing.T, s *Session) {
			_, err := s.Feed(t.Context(), "A secret one. Another one. And")
			require.NoError(t, err)
			_, _, err = s.Close(t.Context())
			require.NoError(t, err)
			s.End()
		}, outcomeClosed, 3, 1, 3, codes.Unset},
		"abandoned": {func(_ *testing.T, s *Session) { s.End() }, outcomeAbandoned, 0, 0, 0, codes.Unset},
		"too long": {func(t *testing.T, s *Session) {
			_, err := s.Feed(t.Context(), strings.Repeat("x", 4001))
			require.Error(t, err)
		}, outcomeFailed, 0, 0, 0, codes.Error},
		"many": {func(t *testing.T, s *Session) {
			_, err := s.Feed(t.Context(), strings.Repeat("A secret one. ", 100))
			require.NoError(t, err)
			s.End()
		}, outcomeAbandoned, maxVerdictEvents, 0, 99, codes.Unset},
	} {
		t.Run(name, func(t *testing.T) {
			r := spantest.New(t)
			sessions := New(newSource(t, model{}), Limits{Bytes: 4000})
			t.Cleanup(sessions.Close)
			ctx, request := r.Tracer.Continue(t.Context(), "request", oteltrace.SpanKindServer, traceparent, "")
			session, err := sessions.Open(ctx, rewardmodel.LiveRequest{})
			require.NoError(t, err)
			request.End() // over NATS, the request ends before the session
			test.run(t, session)
			spans := r.Named("live session")
			require.Len(t, spans, 1)
			span := spans[0]
			require.Equal(t, request.SpanContext().SpanID(), span.Parent().SpanID())
			require.Equal(t, "0af7651916cd43dd8448eb211c80319c", span.SpanContext().TraceID().String())
			require.Equal(t, test.status, span.Status().Code)
			attributes := spantest.Attributes(span.Attributes())
			require.Equal(t, test.outcome, attributes["assay.outcome"])
			counts := map[string]int{}
			for _, e := range span.Events() {
				counts[e.Name]++
				require.NotContains(t, fmt.Sprint(e), "secret")
			}
			require.Equal(t, test.verdicts, counts["assay.verdict"])
			require.Equal(t, test.results, counts["gen_ai.evaluation.result"])
			if test.counted > 0 {
				require.Equal(t, fmt.Sprint(test.counted), attributes["assay.utterances"])
			}
		})
	}
}
