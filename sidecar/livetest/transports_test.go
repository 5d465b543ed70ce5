package livetest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// transport is a protocol of live sessions.
type transport struct {
	name   string
	secure bool // the service has TLS
	queue  bool // the service has NATS
	open   func(t *testing.T, s *service) session
}

// session is the client's side of a live session, before its first message.
type session interface {
	// send sends a message, given as JSON. An error means that the service has ended
	// the session: receive says why.
	send(message string) error
	// sendBytes sends the bytes of a piece of text as they are.
	sendBytes(text string) error
	// end ends the text without the message close, where the transport can; otherwise
	// it sends that.
	end() error
	// receive returns the next event, and an error after the last.
	receive() (event, error)
	// cut breaks the connection.
	cut()
}

// event is a message of the service. That of gRPC that ends a failed session is its
// status, whose code is in Error.
type event struct {
	Utterance *struct {
		Index, Start, End int
		Text              string
		Violation         float64
	}
	Reset    *struct{ Index int }
	Progress *struct{ Bytes int }
	Result   *result
	Error    *struct{ Code, Message string }
}

type result struct {
	ID                           string
	Reward, Violation, Threshold float64
	Compliant, Truncated, Empty  bool
	Witness                      *struct {
		Index, Start, End int
		Text              string
		Violation         float64
	}
	Instances []struct {
		Start, End int
		Violation  float64
	}
}

func transports() []transport {
	return []transport{
		{name: "HTTP1", open: openHTTP(func(p *http.Protocols) { p.SetHTTP1(true) })},
		{name: "h2c", open: openHTTP(func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) })},
		{name: "HTTP2", secure: true, open: openHTTP(func(p *http.Protocols) { p.SetHTTP2(true) })},
		{name: "WebSocket", open: openSocket},
		{name: "gRPC", open: openCall},
		{name: "NATS", queue: true, open: openQueue},
	}
}

// onEach runs a test over all transports at the same time.
func onEach(t *testing.T, test func(t *testing.T, over transport)) {
	for _, over := range transports() {
		t.Run(over.name, func(t *testing.T) {
			t.Parallel()
			test(t, over)
		})
	}
}

// dialer remembers the connections of a client.
type dialer struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.conns = append(d.conns, conn)
	}
	return conn, err
}

func (d *dialer) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, conn := range d.conns {
		_ = conn.Close()
	}
}

// httpSession is a request whose body is written while its response is read.
type httpSession struct {
	*dialer
	to    *io.PipeWriter
	begun chan struct{} // closed when the response has begun
	leave context.CancelFunc

	response *http.Response
	err      error
	lines    *bufio.Reader
}

func openHTTP(protocol func(*http.Protocols)) func(*testing.T, *service) session {
	return func(t *testing.T, s *service) session {
		client, dialed := s.client(t, protocol)
		ctx, leave := context.WithTimeout(context.Background(), deadline)
		from, to := io.Pipe()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url("/v1/live"), from)
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/x-ndjson")
		h := &httpSession{dialer: dialed, to: to, begun: make(chan struct{}), leave: leave}
		go func() {
			defer close(h.begun)
			if h.response, h.err = client.Do(r); h.err == nil { //nolint:bodyclose // below
				h.lines = bufio.NewReader(h.response.Body)
			}
		}()
		t.Cleanup(func() {
			leave()
			_ = to.Close()
			<-h.begun
			if h.err == nil {
				_ = h.response.Body.Close()
			}
		})
		return h
	}
}

func (h *httpSession) send(message string) error {
	_, err := io.WriteString(h.to, message+"\n")
	return err
}

func (h *httpSession) sendBytes(text string) error { return h.send(quoted(text)) }

// quoted is the message of a text without characters to escape, which need not be valid.
func quoted(text string) string { return `{"text":"` + text + `"}` }

func (h *httpSession) end() error { return h.to.Close() }

func (h *httpSession) receive() (e event, err error) {
	<-h.begun
	if h.err != nil {
		return e, h.err
	}
	line, err := h.lines.ReadBytes('\n')
	if err != nil && len(line) == 0 {
		return e, err
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return e, fmt.Errorf("%s %q: %w", h.response.Status, line, err)
	}
	return e, nil
}

// reset ends the stream of the request, and over HTTP/1.1 its connection. The client of
// HTTP/2 waits for the body before it resets the stream.
func (h *httpSession) reset() {
	h.leave()
	_ = h.to.CloseWithError(context.Canceled)
}
