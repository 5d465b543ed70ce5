package serve_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"assay/api/oip/inference"
	"assay/queue"
	"assay/sidecar/processtest"
	"assay/sidecar/serve"
)

const (
	clientTrace = "0af7651916cd43dd8448eb211c8031%02x"
	clientSpan  = "b7ad6b7169203331"
	secretText  = "Sesame opens the door. Nobody else knows."
)

// exporting is a service with all transports that exports traces to endpoint.
func exporting(t *testing.T, endpoint string) serve.Config {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	cfg := embeddedConfig(t)
	cfg.NATS, cfg.GRPCListen, cfg.Queue.Server.Listen, cfg.DataDir, cfg.Train = true, "127.0.0.1:0", "127.0.0.1:0", t.TempDir(), false
	cfg.Traces, cfg.Registry = true, prometheus.NewRegistry()
	return cfg
}

// A request over each transport is one trace, from the span of its client to the model.
func TestTraces(t *testing.T) {
	c := processtest.StartCollector(t)
	s, err := serve.New(exporting(t, c.HTTP), zerolog.Nop())
	require.NoError(t, err)
	s.Start()
	require.NoError(t, s.Ready(t.Context()))
	nc, err := nats.Connect(s.NATSURL())
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	parent := func(i int) string { return "00-" + fmt.Sprintf(clientTrace, i) + "-" + clientSpan + "-01" }
	// Each request has another text, since cached utterances need no batch.
	body := func(i int) string {
		return fmt.Sprintf(`{"responses":[{"id":"a","response":"%s %d times."}]}`, secretText, i)
	}
	for i, test := range []struct {
		name, root string
		send       func(i int)
		children   []string
	}{
		{"HTTP", "POST /v1/score", func(i int) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/v1/score", strings.NewReader(body(i)))
			require.NoError(t, err)
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Traceparent", parent(i))
			response, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, http.StatusOK, response.StatusCode)
		}, nil},
		{"gRPC", "inference.GRPCInferenceService/ModelInfer", func(i int) {
			conn, err := grpc.NewClient(s.GRPCAddress(), grpc.WithTransportCredentials(insecure.NewCredentials()))
			require.NoError(t, err)
			defer conn.Close()
			require.NoError(t, conn.Invoke(metadata.AppendToOutgoingContext(t.Context(), "traceparent", parent(i)),
				"/inference.GRPCInferenceService/ModelInfer", &inference.ModelInferRequest{
					Inputs: []*inference.ModelInferRequest_InferInputTensor{{
						Name: "text", Datatype: "BYTES", Shape: []int64{1},
						Contents: &inference.InferTensorContents{BytesContents: [][]byte{fmt.Appendf(nil, "%s %d times.", secretText, i)}},
					}},
				}, &inference.ModelInferResponse{}))
		}, nil},
		{"NATS request", queue.SubjectScore, func(i int) {
			_, err := nc.RequestMsg(&nats.Msg{Subject: queue.SubjectScore, Data: []byte(body(i)), Header: nats.Header{"traceparent": {parent(i)}}}, processtest.Timeout)
			require.NoError(t, err)
		}, nil},
		{"NATS stream", "process " + queue.SubjectResponses, func(i int) {
			_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: queue.SubjectResponses + ".job", Header: nats.Header{"traceparent": {parent(i)}},
				Data: fmt.Appendf(nil, `{"id":"a","response":"%s %d times."}`, secretText, i)})
			require.NoError(t, err)
		}, []string{"publish " + queue.StreamRewards}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.send(i)
			root := c.Await(t, test.root, 1)[0]
			require.Equal(t, clientSpan, fmt.Sprintf("%x", root.ParentSpanId))
			byName := map[string]processtest.ReceivedSpan{}
			require.Eventually(t, func() bool {
				for _, span := range c.Spans() {
					if fmt.Sprintf("%x", span.TraceId) == fmt.Sprintf(clientTrace, i) {
						byName[span.Name] = span
					}
				}
				return len(byName) == 6+len(test.children)
			}, processtest.Timeout, 5*time.Millisecond)
			for child, of := range map[string]string{"score": test.root, "tokenize": "score", "queue": "score", "batch": "score", "model": "batch"} {
				require.Equal(t, byName[of].SpanId, byName[child].ParentSpanId, child)
			}
			for _, child := range test.children {
				require.Equal(t, root.SpanId, byName[child].ParentSpanId, child)
			}
			score := byName["score"]
			require.Equal(t, "tiny-1", score.Attributes["assay.model.version"])
			require.Equal(t, "1", score.Attributes["assay.responses"])
			require.Equal(t, "3", score.Attributes["assay.utterances"])
			require.NotEqual(t, "0", score.Attributes["assay.tokens"])
			require.Len(t, score.Events, 1)
			require.Equal(t, "gen_ai.evaluation.result", score.Events[0].Name)
			require.Contains(t, []string{"compliant", "violation"}, score.Events[0].Attributes["gen_ai.evaluation.score.label"])
			require.NotEmpty(t, score.Events[0].Attributes["gen_ai.evaluation.score.value"])
			require.NotEmpty(t, score.Events[0].Attributes["assay.witness.end"])
			for _, span := range byName {
				require.NotContains(t, span.String(), "Sesame")
				require.NotContains(t, span.String(), "Nobody")
			}
		})
	}
	msg := processtest.NextReward(t, js, "job")
	published := c.Await(t, "publish "+queue.StreamRewards, 1)[0]
	require.Equal(t, fmt.Sprintf("00-%x-%x-01", published.TraceId, published.SpanId), msg.Headers().Get(queue.HeaderTraceparent))
	require.NoError(t, s.Shutdown())
}

// A collector that does not respond delays no request, and a shutdown for no longer than
// its timeout.
func TestRequestsDoNotWaitForTheCollector(t *testing.T) {
	c := processtest.StartCollector(t)
	defer c.Hold()()
	cfg := exporting(t, c.HTTP)
	cfg.ShutdownTimeout = 3 * time.Second
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "16")
	s, err := serve.New(cfg, zerolog.Nop())
	require.NoError(t, err)
	s.Start()
	require.NoError(t, s.Ready(t.Context()))
	for i := range 20 {
		processtest.Post(t, s.URL(), fmt.Sprintf(`{"responses":[{"response":"Response %d."}]}`, i))
	}
	_, metrics := processtest.Get(t, s.URL()+"/metrics")
	require.Contains(t, metrics, `assay_trace_spans_total{outcome="dropped"}`)
	require.NotContains(t, metrics, `assay_trace_spans_total{outcome="dropped"} 0`)
	begin := time.Now()
	require.NoError(t, s.Shutdown(), "lost spans are no failure")
	require.Less(t, time.Since(begin), processtest.Timeout)
	require.Empty(t, c.Spans())
}

// A shutdown exports what is queued.
func TestShutdownFlushesTraces(t *testing.T) {
	c := processtest.StartCollector(t)
	cfg := exporting(t, c.HTTP)
	cfg.NATS = false
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")
	s, err := serve.New(cfg, zerolog.Nop())
	require.NoError(t, err)
	s.Start()
	require.NoError(t, s.Ready(t.Context()))
	processtest.Post(t, s.URL(), `{"responses":[{"response":"One."}]}`)
	require.Empty(t, c.Spans())
	require.NoError(t, s.Shutdown())
	require.Len(t, c.Await(t, "POST /v1/score", 1), 1)
}

func TestTracesNeedAValidEnvironment(t *testing.T) {
	cfg := exporting(t, "http://127.0.0.1:4318")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier pigeon")
	_, err := serve.New(cfg, zerolog.Nop())
	require.ErrorContains(t, err, "OTEL_EXPORTER_OTLP_PROTOCOL")
}
