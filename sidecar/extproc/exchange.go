package extproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	filter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// exchange is one HTTP request of Envoy with its response. One goroutine receives what
// Envoy sends, and the handler runs on another.
type exchange struct {
	config Config
	stream extproc.ExternalProcessor_ProcessServer
	cancel context.CancelFunc
	ctx    context.Context // of the handler

	request  *http.Request
	started  bool
	forward  sync.Once
	asked    chan struct{}       // closed when the handler has sent its request upstream
	finished chan struct{}       // closed when the handler has returned
	upstream chan *http.Response // 1: from Envoy
	body     *io.PipeWriter      // of that response
	trailers atomic.Bool         // the response of the upstream has trailers

	sending sync.Mutex
	out     *responseWriter
	aborted error // of the handler, once finished
}

type exchangeKey struct{}

func newExchange(c Config, stream extproc.ExternalProcessor_ProcessServer) *exchange {
	e := &exchange{
		config: c, stream: stream,
		asked: make(chan struct{}), finished: make(chan struct{}), upstream: make(chan *http.Response, 1),
	}
	ctx, cancel := context.WithCancel(stream.Context())
	// With a server in the context, ReverseProxy panics with http.ErrAbortHandler when a
	// response breaks off.
	ctx = context.WithValue(ctx, http.ServerContextKey, &http.Server{}) //nolint:gosec // it serves nothing
	e.ctx, e.cancel = context.WithValue(ctx, exchangeKey{}, e), cancel
	e.out = &responseWriter{exchange: e, header: http.Header{}}
	return e
}

// run returns when Envoy ends the stream or the response has broken off.
func (e *exchange) run() error {
	received := make(chan error, 1)
	go func() { received <- e.receive() }() // ends with the stream
	defer func() {
		e.cancel()
		if e.isStarted(received) {
			<-e.finished
		}
	}()
	for finished := e.finished; ; finished = nil { // then Envoy may still send what the handler did not read
		select {
		case err := <-received:
			received <- err
			return err
		case <-finished:
			if e.aborted != nil {
				return e.aborted
			}
		}
	}
}

// isStarted reports whether the handler runs. It waits for the receiver, unless the
// handler has finished.
func (e *exchange) isStarted(received chan error) bool {
	select {
	case <-e.finished:
		return true
	case err := <-received:
		received <- err
		return e.started
	}
}

func (e *exchange) receive() error {
	for {
		m, err := e.stream.Recv()
		if err != nil {
			if e.body != nil {
				_ = e.body.CloseWithError(io.ErrUnexpectedEOF)
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := e.handle(m); err != nil {
			return err
		}
	}
}

// handle handles a message. The reply to a message about the response is sent by the
// handler, by what it writes.
func (e *exchange) handle(m *extproc.ProcessingRequest) error {
	switch r := m.Request.(type) {
	case *extproc.ProcessingRequest_RequestHeaders:
		return e.requestHeaders(m.ProtocolConfig, r.RequestHeaders)
	case *extproc.ProcessingRequest_RequestBody:
		if !r.RequestBody.EndOfStream {
			return misconfigured("request_body_mode", "BUFFERED")
		}
		return e.start(r.RequestBody.Body, bodyReply())
	case *extproc.ProcessingRequest_RequestTrailers:
		return e.send(&extproc.ProcessingResponse{Response: &extproc.ProcessingResponse_RequestTrailers{RequestTrailers: &extproc.TrailersResponse{}}})
	case *extproc.ProcessingRequest_ResponseHeaders:
		return e.responseHeaders(r.ResponseHeaders)
	case *extproc.ProcessingRequest_ResponseBody:
		if e.body == nil {
			return status.Error(codes.InvalidArgument, "a response body without response headers; set response_header_mode to SEND")
		}
		_, _ = e.body.Write(r.ResponseBody.Body) // fails if the handler reads no more
		if r.ResponseBody.EndOfStream {
			_ = e.body.Close()
		}
	case *extproc.ProcessingRequest_ResponseTrailers:
		e.trailers.Store(true)
		if e.body != nil {
			_ = e.body.Close()
		}
	}
	return nil
}

func misconfigured(field, want string) error {
	return status.Errorf(codes.InvalidArgument, "processing_mode of Envoy: set %s to %s", field, want)
}

func (e *exchange) requestHeaders(c *extproc.ProtocolConfiguration, h *extproc.HttpHeaders) error {
	if e.request != nil {
		return status.Error(codes.InvalidArgument, "a second request on one stream")
	}
	if c != nil && c.ResponseBodyMode != filter.ProcessingMode_FULL_DUPLEX_STREAMED {
		return misconfigured("response_body_mode", "FULL_DUPLEX_STREAMED")
	}
	if c != nil && c.RequestBodyMode != filter.ProcessingMode_BUFFERED && c.RequestBodyMode != filter.ProcessingMode_NONE {
		return misconfigured("request_body_mode", "BUFFERED")
	}
	request, err := requestOf(e.ctx, h.Headers)
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "the headers of the request: %v", err)
	}
	e.request = request
	if h.EndOfStream || c != nil && c.RequestBodyMode == filter.ProcessingMode_NONE {
		return e.start(nil, requestHeadersReply())
	}
	return e.send(requestHeadersReply())
}

// start runs the handler, and lets Envoy continue with the request when the handler has
// sent its own. A handler that responds without doing so responds to the client.
func (e *exchange) start(body []byte, reply *extproc.ProcessingResponse) error {
	if e.request == nil || e.started {
		return status.Error(codes.InvalidArgument, "the body of a request without its headers; set request_header_mode to SEND")
	}
	e.started = true
	e.request.Body, e.request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	go e.serve()
	select {
	case <-e.asked:
		return e.send(reply)
	case <-e.finished:
		return nil
	}
}

// serve runs the handler.
func (e *exchange) serve() {
	defer close(e.finished)
	defer e.cancel()
	defer func() {
		switch value := recover(); value { //nolint:errorlint // net/http compares so, too
		case nil:
		case http.ErrAbortHandler:
			e.aborted = status.Error(codes.Aborted, "the response has broken off")
		default:
			e.config.Log.Error().Str("panic", fmt.Sprint(value)).Bytes("stack", debug.Stack()).Msg("handler panicked")
			e.aborted = status.Error(codes.Internal, "the handler panicked")
		}
	}()
	e.config.Handler.ServeHTTP(e.out, e.request)
	if err := e.out.finish(); err != nil {
		e.aborted = err
	}
}

func (e *exchange) responseHeaders(h *extproc.HttpHeaders) error {
	if e.body != nil {
		return status.Error(codes.InvalidArgument, "a second response on one stream")
	}
	response, err := responseOf(h.Headers) //nolint:bodyclose // the handler closes it
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "the headers of the response: %v", err)
	}
	from, to := io.Pipe()
	response.Body, e.body = from, to
	context.AfterFunc(e.ctx, func() { _ = from.Close() }) // the handler reads no more
	if h.EndOfStream {
		_ = e.body.Close()
		e.out.bodyless.Store(true)
	}
	e.upstream <- response
	return nil
}

// send sends a message. The receiver and the handler do.
func (e *exchange) send(m *extproc.ProcessingResponse) error {
	e.sending.Lock()
	defer e.sending.Unlock()
	return e.stream.Send(m)
}

// Upstream sends the request of a handler to the upstream of Envoy. It sends nothing
// itself: Envoy forwards the request that it has. The end of the context of a request
// ends the reads of its response.
type Upstream struct {
	// Timeout bounds the wait for the headers of a response, with
	// context.DeadlineExceeded; 0: no bound.
	Timeout time.Duration
}

// RoundTrip implements [http.RoundTripper].
func (u Upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	e, ok := r.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return nil, errors.New("the request belongs to no exchange of Envoy")
	}
	if r.Body != nil {
		_ = r.Body.Close()
	}
	e.forward.Do(func() { close(e.asked) })
	var late <-chan time.Time
	if u.Timeout > 0 {
		timer := time.NewTimer(u.Timeout)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-late:
		return nil, fmt.Errorf("no response headers within %v: %w", u.Timeout, context.DeadlineExceeded)
	case response := <-e.upstream:
		response.Request = r
		body := response.Body
		context.AfterFunc(r.Context(), func() { _ = body.Close() })
		e.out.upstream(response)
		return response, nil
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
}
