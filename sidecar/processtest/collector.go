package processtest

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// Collector receives traces over OTLP.
type Collector struct {
	collector.UnimplementedTraceServiceServer
	HTTP, GRPC string // endpoints

	mu       sync.Mutex
	received []*tracev1.ResourceSpans
	keys     []string      // values of the header x-key
	hold     chan struct{} // requests wait until it is closed; nil: they do not
	status   int           // of HTTP; 0: 200
}

// StartCollector starts a collector that stops with the test.
func StartCollector(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{}
	web := httptest.NewServer(http.HandlerFunc(c.receive))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	rpc := grpc.NewServer()
	collector.RegisterTraceServiceServer(rpc, c)
	go func() { _ = rpc.Serve(listener) }()
	t.Cleanup(func() {
		c.Hold()() // nothing waits any more
		rpc.Stop()
		web.Close()
	})
	c.HTTP, c.GRPC = web.URL, "http://"+listener.Addr().String()
	return c
}

// Hold makes requests wait until release is called.
func (c *Collector) Hold() (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hold != nil {
		close(c.hold)
	}
	held := make(chan struct{})
	c.hold = held
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.hold == held {
			close(held)
			c.hold = nil
		}
	}
}

// Fail makes requests over HTTP fail with a status; 0: they succeed.
func (c *Collector) Fail(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = status
}

func (c *Collector) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	request := &collector.ExportTraceServiceRequest{}
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, request) != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	if status := c.add(r.Context(), request, r.Header.Get("X-Key")); status != 0 {
		w.WriteHeader(status)
	}
}

// Export implements collector.TraceServiceServer.
func (c *Collector) Export(ctx context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	c.add(ctx, request, append(md.Get("x-key"), "")[0])
	return &collector.ExportTraceServiceResponse{}, nil
}

// add returns the status of the response.
func (c *Collector) add(ctx context.Context, request *collector.ExportTraceServiceRequest, key string) int {
	c.mu.Lock()
	hold := c.hold
	c.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return http.StatusServiceUnavailable
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status == 0 {
		c.received = append(c.received, request.ResourceSpans...)
		c.keys = append(c.keys, key)
	}
	return c.status
}

// Keys returns the values of the header x-key that it received.
func (c *Collector) Keys() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keys
}

// ReceivedSpan is a span that a Collector received.
type ReceivedSpan struct {
	*tracev1.Span
	Resource, Attributes map[string]string
	Events               []ReceivedEvent
}

// ReceivedEvent is an event of a span.
type ReceivedEvent struct {
	Name       string
	Attributes map[string]string
}

// Spans returns what it received.
func (c *Collector) Spans() (spans []ReceivedSpan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.received {
		for _, scope := range r.ScopeSpans {
			for _, span := range scope.Spans {
				s := ReceivedSpan{Span: span, Resource: attributes(r.Resource.Attributes), Attributes: attributes(span.Attributes)}
				for _, e := range span.Events {
					s.Events = append(s.Events, ReceivedEvent{e.Name, attributes(e.Attributes)})
				}
				spans = append(spans, s)
			}
		}
	}
	return spans
}

// Await waits for n spans of a name, and returns them.
func (c *Collector) Await(t *testing.T, name string, n int) (named []ReceivedSpan) {
	t.Helper()
	require.Eventually(t, func() bool {
		named = nil
		for _, s := range c.Spans() {
			if s.Name == name {
				named = append(named, s)
			}
		}
		return len(named) >= n
	}, Timeout, 5*time.Millisecond, "%d spans %s", n, name)
	return named
}

func attributes(of []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, a := range of {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			out[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			out[a.Key] = strconv.FormatInt(v.IntValue, 10)
		case *common.AnyValue_DoubleValue:
			out[a.Key] = strconv.FormatFloat(v.DoubleValue, 'g', -1, 64)
		case *common.AnyValue_BoolValue:
			out[a.Key] = strconv.FormatBool(v.BoolValue)
		}
	}
	return out
}
