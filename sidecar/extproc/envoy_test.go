package extproc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	protocol "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"assay/sidecar/extproc"
	"assay/sidecar/proxy"
)

// upstream is what Envoy gets from the inference server.
type upstream struct {
	status  int // default 200
	headers map[string]string
	chunks  []string
	trailer bool // the response ends with trailers
	cut     bool // the client of Envoy leaves instead of the end
	silent  bool // nothing follows the chunks; without headers, nothing at all
}

// seen is what the client of Envoy gets.
type seen struct {
	immediate bool // from the external processor
	status    int
	headers   http.Header
	body      string
	metadata  map[string]any
	request   *protocol.HeaderMutation // of the request headers
	err       error                    // of the stream
}

// envoy acts as Envoy does in the modes that the protocol needs.
type envoy struct {
	client protocol.ExternalProcessorClient
	modes  *protocol.ProtocolConfiguration
}

// start serves a proxy with the guard to an envoy.
func start(t *testing.T, mode proxy.Mode, guard proxy.Guard) envoy {
	t.Helper()
	return startWith(t, guard, func(c *proxy.Config) { c.Mode = mode })
}

func startWith(t *testing.T, guard proxy.Guard, change func(*proxy.Config)) envoy {
	t.Helper()
	config := proxy.DefaultConfig()
	change(&config)
	config.Transport = extproc.Upstream{Timeout: config.UpstreamTimeout}
	p, err := proxy.New(config, guard, zerolog.Nop(), prometheus.NewRegistry())
	require.NoError(t, err)
	return serve(t, p)
}

func serve(t *testing.T, handler http.Handler) envoy {
	t.Helper()
	server := extproc.NewServer(extproc.Config{Handler: handler, VerdictHeader: proxy.VerdictHeader, MaxExchanges: 16, MaxBody: 1 << 20, Log: zerolog.Nop()})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		require.NoError(t, server.Shutdown(ctx))
		require.NoError(t, <-done)
	})
	return envoy{protocol.NewExternalProcessorClient(conn), &protocol.ProtocolConfiguration{
		RequestBodyMode: filter.ProcessingMode_BUFFERED, ResponseBodyMode: filter.ProcessingMode_FULL_DUPLEX_STREAMED,
	}}
}

func headerMap(headers map[string]string) *core.HeaderMap {
	m := &core.HeaderMap{}
	for key, value := range headers {
		m.Headers = append(m.Headers, &core.HeaderValue{Key: key, RawValue: []byte(value)})
	}
	return m
}

// exchange sends a request with a body, unless it is empty, and what the upstream responds.
func (e envoy) exchange(t *testing.T, path, body string, u upstream) seen {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	process, err := e.client.Process(ctx)
	require.NoError(t, err)
	stream := &oneSender{ExternalProcessor_ProcessClient: process}
	method := "POST"
	if body == "" {
		method = "GET"
	}
	headers := map[string]string{":method": method, ":path": path, ":authority": "llm", ":scheme": "http", "content-type": "application/json", "accept-encoding": "gzip"}
	require.NoError(t, stream.Send(&protocol.ProcessingRequest{ProtocolConfig: e.modes, Request: &protocol.ProcessingRequest_RequestHeaders{
		RequestHeaders: &protocol.HttpHeaders{Headers: headerMap(headers), EndOfStream: body == ""}}}))
	var s seen
	if !s.next(stream) {
		return s
	}
	if body != "" {
		require.NoError(t, stream.Send(&protocol.ProcessingRequest{Request: &protocol.ProcessingRequest_RequestBody{
			RequestBody: &protocol.HttpBody{Body: []byte(body), EndOfStream: true}}}))
		if !s.next(stream) {
			return s
		}
	}
	go u.respond(stream, cancel)
	for s.next(stream) {
	}
	return s
}

// oneSender lets the processor end a stream while the upstream sends: gRPC forbids both at the same time, and to send
// after the end.
type oneSender struct {
	protocol.ExternalProcessor_ProcessClient
	mu    sync.Mutex
	ended bool
}

func (s *oneSender) Send(r *protocol.ProcessingRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return io.EOF
	}
	return s.ExternalProcessor_ProcessClient.Send(r)
}

func (s *oneSender) CloseSend() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	return s.ExternalProcessor_ProcessClient.CloseSend()
}

// respond sends the response of the upstream. What the processor does not want any more is lost.
func (u upstream) respond(stream protocol.ExternalProcessor_ProcessClient, leave func()) {
	if u.silent && u.headers == nil {
		return
	}
	headers := map[string]string{":status": "200", "content-length": "7"}
	if u.status != 0 {
		headers[":status"] = map[int]string{404: "404"}[u.status]
	}
	for key, value := range u.headers {
		headers[key] = value
	}
	_ = stream.Send(&protocol.ProcessingRequest{Request: &protocol.ProcessingRequest_ResponseHeaders{ResponseHeaders: &protocol.HttpHeaders{Headers: headerMap(headers)}}})
	for i, chunk := range u.chunks {
		end := i == len(u.chunks)-1 && !u.trailer && !u.cut && !u.silent
		_ = stream.Send(&protocol.ProcessingRequest{Request: &protocol.ProcessingRequest_ResponseBody{ResponseBody: &protocol.HttpBody{Body: []byte(chunk), EndOfStream: end}}})
	}
	switch {
	case u.cut:
		leave()
	case u.trailer:
		_ = stream.Send(&protocol.ProcessingRequest{Request: &protocol.ProcessingRequest_ResponseTrailers{ResponseTrailers: &protocol.HttpTrailers{}}})
	}
}

// next receives a message. It returns false after the last one.
func (s *seen) next(stream protocol.ExternalProcessor_ProcessClient) bool {
	m, err := stream.Recv()
	if err != nil {
		s.err = err
		return false
	}
	if m.DynamicMetadata != nil {
		s.metadata = m.DynamicMetadata.AsMap()
	}
	switch r := m.Response.(type) {
	case *protocol.ProcessingResponse_RequestHeaders:
		s.request = r.RequestHeaders.GetResponse().GetHeaderMutation()
	case *protocol.ProcessingResponse_ResponseHeaders:
		s.status, s.headers = http.StatusOK, http.Header{}
		for _, h := range r.ResponseHeaders.GetResponse().GetHeaderMutation().GetSetHeaders() {
			s.headers.Add(h.Header.Key, string(h.Header.RawValue))
		}
	case *protocol.ProcessingResponse_ResponseBody:
		part := r.ResponseBody.Response.BodyMutation.GetStreamedResponse()
		if s.status == 0 {
			s.err = errors.New("a body before the headers")
			return false
		}
		s.body += string(part.Body)
		if part.EndOfStream {
			s.err = end(stream)
			return false
		}
	case *protocol.ProcessingResponse_ResponseTrailers:
		s.err = end(stream)
		return false
	case *protocol.ProcessingResponse_ImmediateResponse:
		s.immediate, s.status, s.body = true, int(r.ImmediateResponse.Status.Code), string(r.ImmediateResponse.Body)
		s.err = end(stream)
		return false
	}
	return true
}

// end ends the stream as Envoy does.
func end(stream protocol.ExternalProcessor_ProcessClient) error {
	_ = stream.CloseSend()
	for {
		_, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// marker makes a sentence violate.
const marker = "ZQXJ"

// sentenceGuard settles a sentence at ". ".
type sentenceGuard struct {
	fail    error
	prompts chan string // nil: nobody reads them
}

func (g sentenceGuard) Ready(context.Context) error { return nil }

func (g sentenceGuard) Open(_ context.Context, prompt string, report func(proxy.Event)) (proxy.Session, error) {
	if g.prompts != nil {
		g.prompts <- prompt
	}
	return &sentenceSession{fail: g.fail, report: report, verdict: proxy.Verdict{Compliant: true, Reward: 0.9, Violation: 0.1}}, nil
}

type sentenceSession struct {
	fail    error
	report  func(proxy.Event)
	text    string
	settled int
	verdict proxy.Verdict
}

func (s *sentenceSession) Feed(_ context.Context, piece string) error {
	s.text += piece
	for s.fail == nil {
		sentence, _, found := strings.Cut(s.text[s.settled:], ". ")
		if !found {
			break
		}
		s.settle(s.settled + len(sentence) + len(". "))
	}
	return s.fail
}

func (s *sentenceSession) settle(end int) {
	e := proxy.Event{Start: s.settled, End: end, Violation: 0.1}
	if strings.Contains(s.text[s.settled:end], marker) {
		e.Violation, e.Violating = 0.9, true
		s.verdict = proxy.Verdict{Violation: 0.9, Reward: 0.1}
	}
	e.Text, s.settled = s.verdict, end
	s.report(e)
}

func (s *sentenceSession) Close(context.Context) (proxy.Verdict, error) {
	if s.settled < len(s.text) {
		s.settle(len(s.text))
	}
	return s.verdict, nil
}

func (s *sentenceSession) Done() <-chan struct{} { return nil }

func (s *sentenceSession) End() {}
