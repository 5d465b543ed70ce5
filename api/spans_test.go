package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"

	"assay/api"
	"assay/api/oip/inference"
	"assay/internal/trace/spantest"
	"assay/rewardmodel"
)

const clientTrace, clientSpan = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

func TestSpansOfHTTPRequests(t *testing.T) {
	r := spantest.New(t)
	scorer := scorerOf(t, &model{}, 0)
	failing := errors.New("an error with the text of the response")
	s := start(t, scorerFunc(func(ctx context.Context, req rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
		if *req.Responses[0].Response == "fail" {
			return rewardmodel.ScoreResponse{}, failing
		}
		return scorer.Score(ctx, req)
	}), parts(func(p *api.Parts) { p.Tracer = r.Tracer }))
	sampled := "00-" + clientTrace + "-" + clientSpan + "-01"
	for name, test := range map[string]struct {
		method, path, body, traceparent string
		span                            string // "": none
		attributes                      map[string]string
		failed                          bool
	}{
		"new trace": {"POST", "/v1/score", one("a"), "", "POST /v1/score", map[string]string{
			"http.request.method": "POST", "http.route": "/v1/score", "http.response.status_code": "200"}, false},
		"continued":   {"POST", "/v1/score", one("a"), sampled, "POST /v1/score", map[string]string{"http.response.status_code": "200"}, false},
		"not sampled": {"POST", "/v1/score", one("a"), "00-" + clientTrace + "-" + clientSpan + "-00", "", nil, false},
		"bad request": {"POST", "/v1/score", `{"responses":[]}`, "", "POST /v1/score", map[string]string{"http.response.status_code": "422"}, false},
		"failure":     {"POST", "/v1/score", one("fail"), "", "POST /v1/score", map[string]string{"http.response.status_code": "500", "error.type": "500"}, true},
		"no route":    {"GET", "/text/of/a/response", "", "", "GET unmatched", map[string]string{"http.route": "unmatched"}, false},
		"method":      {"BREW", "/v1/score", "", "", "other /v1/score", map[string]string{"http.request.method": "other"}, false},
		"probe":       {"GET", "/readyz", "", "", "", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			r.Reset()
			var body io.Reader
			if test.body != "" {
				body = strings.NewReader(test.body)
			}
			s.do(t, test.method, test.path, body, "Traceparent", test.traceparent, "X-Request-Id", "r-1")
			logged := s.log.request(t) // the span ends just after
			if test.span == "" {
				require.Empty(t, r.Started())
				return
			}
			require.Eventually(t, func() bool { return len(r.Named(test.span)) == 1 }, timeout, time.Millisecond)
			span := r.Named(test.span)[0]
			require.Equal(t, oteltrace.SpanKindServer, span.SpanKind())
			attributes := spantest.Attributes(span.Attributes())
			require.Equal(t, "r-1", attributes["assay.request.id"])
			for name, value := range test.attributes {
				require.Equal(t, value, attributes[name], name)
			}
			require.Equal(t, test.failed, span.Status().Code == codes.Error)
			require.NotContains(t, fmt.Sprint(span.Attributes(), span.Status(), span.Events()), "text")
			require.Contains(t, logged["traceparent"], span.SpanContext().TraceID().String()+"-"+span.SpanContext().SpanID().String())
			if test.traceparent != "" {
				require.Equal(t, clientTrace, span.SpanContext().TraceID().String())
				require.Equal(t, clientSpan, span.Parent().SpanID().String())
				require.Equal(t, span.SpanContext().SpanID(), r.Named("score")[0].Parent().SpanID())
			}
		})
	}
}

func TestSpansOfCalls(t *testing.T) {
	r := spantest.New(t)
	s := startRPC(t, scorerOf(t, &model{}, 0), parts(func(p *api.Parts) { p.Tracer = r.Tracer }))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", "00-"+clientTrace+"-"+clientSpan+"-01")
	const method = "inference.GRPCInferenceService/ModelInfer"
	for range 2 {
		require.NoError(t, s.conn.Invoke(ctx, "/"+method, texts("Hello."), &inference.ModelInferResponse{}))
	}
	require.Error(t, s.conn.Invoke(t.Context(), "/inference.GRPCInferenceService/Unknown", texts("Hello."), &inference.ModelInferResponse{}))
	require.Eventually(t, func() bool { return len(r.Named(method)) == 2 && len(r.Named("unmatched")) == 1 }, timeout, time.Millisecond)
	for _, span := range r.Named(method) {
		require.Equal(t, clientTrace, span.SpanContext().TraceID().String())
		require.Equal(t, clientSpan, span.Parent().SpanID().String())
		attributes := spantest.Attributes(span.Attributes())
		require.Equal(t, "grpc", attributes["rpc.system.name"])
		require.Equal(t, method, attributes["rpc.method"])
		require.Equal(t, "OK", attributes["rpc.response.status_code"])
	}
	require.Equal(t, codes.Error, r.Named("unmatched")[0].Status().Code)
	require.Len(t, r.Named("score"), 2)
}
