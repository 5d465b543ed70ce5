package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	"assay/api"
	"assay/internal/trace/spantest"
	"assay/rewardmodel/live"
)

// A live session has a span below that of its request, in the trace of the client.
func TestSpansOfLiveSessions(t *testing.T) {
	const traceparent = "00-" + clientTrace + "-" + clientSpan + "-01"
	messages := []string{`{"open":{"id":"r1"}}`, textMessage(liveText), `{"close":{}}`}
	r := spantest.New(t)
	traced := parts(func(p *api.Parts) { p.Tracer = r.Tracer })
	for name, test := range map[string]struct {
		request string
		run     func(t *testing.T)
	}{
		"HTTP": {"POST /v1/live", func(t *testing.T) {
			startLive(t, &model{}, live.Limits{}, traced).do(t, "POST", "/v1/live", strings.NewReader(strings.Join(messages, "\n")+"\n"),
				"Content-Type", "application/x-ndjson", "Traceparent", traceparent)
		}},
		"WebSocket": {"GET /v1/live", func(t *testing.T) {
			conn := openSocket(t, startLive(t, &model{}, live.Limits{}, traced), "Traceparent", traceparent)
			write(t, conn, messages...)
			readAll(t, conn)
		}},
		"gRPC": {"assay.v1.Live/Session", func(t *testing.T) {
			call := openCall(t, metadata.AppendToOutgoingContext(t.Context(), "traceparent", traceparent), startLiveRPC(t, &model{}, traced))
			sendLive(t, call, messages...)
			require.NoError(t, call.CloseSend())
			_, err := receiveLive(t, call)
			require.NoError(t, err)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r.Reset()
			test.run(t)
			require.Eventually(t, func() bool { return len(r.Named(test.request)) == 1 }, timeout, time.Millisecond)
			request, sessions := r.Named(test.request)[0], r.Named("live session")
			require.Equal(t, clientSpan, request.Parent().SpanID().String())
			require.Len(t, sessions, 1)
			require.Equal(t, clientTrace, sessions[0].SpanContext().TraceID().String())
			require.Equal(t, request.SpanContext().SpanID(), sessions[0].Parent().SpanID())
			require.Equal(t, "closed", spantest.Attributes(sessions[0].Attributes())["assay.outcome"])
			require.Len(t, sessions[0].Events(), 4, "three verdicts and the result")
		})
	}
}
