package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"assay/api/access"
	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/livestream"
	"assay/internal/errorcode"
	"assay/internal/payload"
	"assay/rewardmodel/live"
	"assay/rewardmodel/wire"
)

// liveSocket serves GET /v1/live: a live session over a WebSocket (RFC 6455), one
// message per text frame.
type liveSocket struct {
	authorizer access.Authorizer
	sessions   *live.Sessions
	guard      *http.CrossOriginProtection
	open       *sockets
}

func (e liveSocket) serve(w http.ResponseWriter, r *http.Request) error {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") || r.ProtoMajor != 1 {
		return failure.Invalid("Upgrade", "is not a WebSocket handshake; connect with a WebSocket over HTTP/1.1, or send a POST request")
	}
	if err := e.checkOrigin(r); err != nil {
		return err
	}
	ctx, end, err := e.open.begin(r.Context())
	if err != nil {
		return err
	}
	defer end()
	// checkOrigin knows which origins the service trusts.
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	x := exchange.Of(r)
	if err != nil {
		x.Err = err // the response is sent
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn.SetReadLimit(-1) // Receive charges what it reads, and has a limit
	socket := &liveConn{ctx: ctx, x: x, allowed: e.authorizer.StillAllowed(r, access.ScopeScore), conn: conn}
	var pinging sync.WaitGroup
	pinging.Go(socket.ping)
	x.Err = livestream.Serve(ctx, e.sessions, socket, sourceLive)
	socket.refuse(x.Err)
	cancel()
	pinging.Wait()
	return nil
}

// checkOrigin rejects pages of other origins, which a browser lets open a WebSocket
// with the cookies of this one.
func (e liveSocket) checkOrigin(r *http.Request) error {
	if r.Header.Get("Origin") == "" && len(r.Header.Values("Authorization")) == 0 && access.SessionOf(r) != "" {
		return failure.ForbiddenOrigin(errors.New("a handshake with a cookie lacks the origin of its page"))
	}
	post := *r
	post.Method = http.MethodPost // the handshake is a GET, which any page may send
	if err := e.guard.Check(&post); err != nil {
		return failure.ForbiddenOrigin(err)
	}
	return nil
}

// liveConn is the stream of a WebSocket.
type liveConn struct {
	ctx     context.Context
	allowed func() error // why the client may not continue
	x       *exchange.Exchange
	conn    *websocket.Conn
	late    atomic.Bool  // the first message did not arrive in time
	reads   atomic.Int64 // how often reading a message began or ended: odd while one is read
	started bool
	closed  bool
}

// Receive implements livestream.Stream.
func (c *liveConn) Receive() (wire.LiveMessage, error) {
	message, err := c.read()
	if err != nil {
		return wire.LiveMessage{}, err
	}
	defer c.x.Memory.Shrink(int64(cap(message)))
	c.x.BytesIn += int64(len(message))
	if !utf8.Valid(message) { // the library does not check
		return wire.LiveMessage{}, failure.Invalid("", "a text message is not valid UTF-8")
	}
	if err := c.allowed(); err != nil {
		return wire.LiveMessage{}, err
	}
	return livestream.Decode(c.x, message)
}

// read returns the next message. Its capacity is charged.
func (c *liveConn) read() ([]byte, error) {
	c.reads.Add(1)
	defer c.reads.Add(1)
	if !c.started {
		timer := time.AfterFunc(c.x.HeaderTimeout, func() {
			c.late.Store(true)
			_ = c.conn.Close(closeStatus(c.x, context.DeadlineExceeded))
		})
		defer timer.Stop()
	}
	kind, from, err := c.conn.Reader(c.ctx)
	if err != nil {
		return nil, c.readError(err)
	}
	if kind != websocket.MessageText {
		return nil, failure.UnsupportedMediaType("", "a binary message was received; send JSON in text messages")
	}
	limit := c.x.Limits().MaxBody
	message, err := payload.ReadAll(from, limit, 0, c.x.Memory, failure.TooLarge("", "a message is larger than %d bytes; send the text in smaller pieces, or raise --max-body", limit))
	if err != nil {
		return nil, c.readError(err)
	}
	return message, nil
}

// readError returns an error of the service as it is; any other means that the client
// left.
func (c *liveConn) readError(err error) error {
	switch {
	case c.late.Load():
		return fmt.Errorf("the first message did not arrive: %w", context.DeadlineExceeded)
	case errorcode.Of(err) == errorcode.Internal && !isFailure(err):
		return fmt.Errorf("reading a message: %w: %w", err, context.Canceled)
	}
	return err
}

func isFailure(err error) bool {
	var own *failure.Error
	return errors.As(err, &own)
}

// Start implements livestream.Stream.
func (c *liveConn) Start() error {
	c.started = true
	return nil
}

// Send implements livestream.Stream.
func (c *liveConn) Send(message []byte) error {
	ctx, cancel := context.WithTimeout(c.ctx, eventSendTimeout)
	defer cancel()
	if err := c.conn.Write(ctx, websocket.MessageText, message); err != nil {
		return fmt.Errorf("sending an event: %w", err)
	}
	return nil
}

// Hangup implements livestream.Stream.
func (c *liveConn) Hangup(err error) {
	c.closed = true
	if errors.Is(err, context.Canceled) {
		_ = c.conn.CloseNow()
		return
	}
	code, reason := closeStatus(c.x, err)
	_ = c.conn.Close(code, reason)
}

// refuse ends a socket whose session was not opened.
func (c *liveConn) refuse(err error) {
	if c.closed {
		return
	}
	if !errors.Is(err, context.Canceled) {
		f := c.x.Failure(err)
		if message, err := wire.AppendLiveError(nil, string(f.Code), f.Message, f.Field); err == nil {
			_ = c.Send(message)
		}
	}
	c.Hangup(err)
}

// ping detects clients that left without closing the connection. The library handles a
// pong only while a message is read, so one that is missing means nothing unless reading
// took all the time: the session may be behind its client.
func (c *liveConn) ping() {
	ticker := time.NewTicker(heartbeatInterval)
	defer ticker.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-ticker.C:
		}
		reads := c.reads.Load()
		if reads%2 == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(c.ctx, eventSendTimeout)
		err := c.conn.Ping(ctx)
		cancel()
		if err != nil && c.reads.Load() == reads {
			_ = c.conn.CloseNow()
			return
		}
	}
}

// closeStatus maps the reason of an end to the status of a close frame: 1009 and 1013
// as IANA registers them, 1008 for other mistakes of the client.
func closeStatus(x *exchange.Exchange, err error) (websocket.StatusCode, string) {
	if err == nil {
		return websocket.StatusNormalClosure, ""
	}
	f := x.Failure(err)
	reason := string(f.Code)
	switch status := f.Status(); {
	case f.Code == errorcode.TooLarge:
		return websocket.StatusMessageTooBig, reason
	case status == http.StatusServiceUnavailable:
		return websocket.StatusTryAgainLater, reason
	case status < http.StatusInternalServerError:
		return websocket.StatusPolicyViolation, reason
	default:
		return websocket.StatusInternalError, reason
	}
}

// sockets are the open WebSockets, which net/http does not wait for when it shuts
// down.
type sockets struct {
	mu     sync.Mutex
	open   int
	closed bool
	idle   chan struct{} // closed when the last one has ended after close
	ctx    context.Context
	cancel context.CancelFunc
}

func newSockets() *sockets {
	ctx, cancel := context.WithCancel(context.Background())
	return &sockets{idle: make(chan struct{}), ctx: ctx, cancel: cancel}
}

// begin counts a socket; the context ends when the service has no more time for it.
func (s *sockets) begin(ctx context.Context) (_ context.Context, end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, failure.ErrDraining
	}
	s.open++
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open--; s.open == 0 && s.closed {
			close(s.idle)
		}
	}, nil
}

// shutdown waits until all have ended. If ctx ends first, it ends them.
func (s *sockets) shutdown(ctx context.Context) error {
	s.mu.Lock()
	if s.closed = true; s.open == 0 {
		close(s.idle)
	}
	s.mu.Unlock()
	select {
	case <-s.idle:
		s.cancel()
		return nil
	case <-ctx.Done():
		s.cancel()
		<-s.idle
		return fmt.Errorf("draining WebSockets: %w", context.Cause(ctx))
	}
}
