package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"assay/api/access"
	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
	"assay/api/internal/livestream"
	"assay/internal/payload"
	"assay/rewardmodel/live"
	"assay/rewardmodel/wire"
)

// sourceLive names the sessions of both protocols of /v1/live.
const sourceLive = "http /v1/live"

// lingering is how long a body is still read after its session has ended, so that a
// client that still sends does not lose the end of the response to a reset connection.
const lingering = 500 * time.Millisecond

// liveEndpoint serves POST /v1/live: the body is the messages of a live session, one
// per line, and the response its events as they occur, as lines or as server-sent
// events.
type liveEndpoint struct {
	authorizer access.Authorizer
	sessions   *live.Sessions
}

func (e liveEndpoint) serve(w http.ResponseWriter, r *http.Request) error {
	lines, err := httpjson.ReadLines(w, r, httpjson.NDJSON, httpjson.JSON)
	if err != nil {
		return err
	}
	x := exchange.Of(r)
	stream := &liveBody{w: w, x: x, allowed: e.authorizer.StillAllowed(r, access.ScopeScore), lines: lines, control: http.NewResponseController(w), contentType: string(httpjson.NDJSON)}
	if listsEventStream(r.Header.Values("Accept")) {
		stream.prefix, stream.suffix, stream.contentType = "data: ", "\n", "text/event-stream"
	}
	if r.ProtoMajor == 1 {
		stream.linger = lingering
	}
	if !fullDuplex(w, r) { // HTTP/1.0: the response follows the request
		stream.held = payload.NewBuffer(x.Memory, failure.MaxReply, func(int64) error { return failure.ReplyTooLarge() })
	}
	err = livestream.Serve(r.Context(), e.sessions, stream, sourceLive)
	x.BytesIn = lines.Count()
	switch {
	case stream.held != nil && err == nil:
		stream.header()
		httpjson.Send(w, r, http.StatusOK, stream.held.Bytes())
	case stream.started:
		x.Err, err = err, nil // the status was sent: the reason is for the log
	}
	return err
}

// withFullDuplex lets h, and what refuses the request before h, respond while the client
// still sends.
func withFullDuplex(h httpjson.Handler) httpjson.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		fullDuplex(w, r)
		return h(w, r)
	}
}

// fullDuplex reports whether the response may precede the end of the request.
func fullDuplex(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case r.ProtoMajor > 1:
		return true
	case !r.ProtoAtLeast(1, 1) || http.NewResponseController(w).EnableFullDuplex() != nil:
		return false
	}
	// net/http would take what an early end leaves of the body for a request.
	w.Header().Set("Connection", "close")
	return true
}

// listsEventStream parses Accept: it lists the stream.
func listsEventStream(values []string) bool {
	for part := range strings.SplitSeq(strings.Join(values, ","), ",") {
		kind, _, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(kind), "text/event-stream") {
			return true
		}
	}
	return false
}

// liveBody is the stream of a request and its response.
type liveBody struct {
	allowed        func() error // why the client may not continue
	w              http.ResponseWriter
	x              *exchange.Exchange
	control        *http.ResponseController
	lines          *httpjson.Lines
	contentType    string
	prefix, suffix string          // of a message, before and after its line
	held           *payload.Buffer // the response, if it must follow the request
	linger         time.Duration   // how long the body is read after the end of the session
	started        bool            // the status was sent

	mu      sync.Mutex
	sending bool // an event is being sent
	behind  bool // a message was received, and the next one is not read yet
}

// Receive implements livestream.Stream.
func (b *liveBody) Receive() (wire.LiveMessage, error) {
	b.setBehind(false)
	line, err := b.lines.Next()
	b.setBehind(err == nil)
	if err != nil {
		return wire.LiveMessage{}, err
	}
	if err := b.allowed(); err != nil {
		return wire.LiveMessage{}, err
	}
	return livestream.Decode(b.x, line)
}

// Start implements livestream.Stream.
func (b *liveBody) Start() error {
	b.lines.Wait()
	if b.held != nil {
		return nil
	}
	b.header()
	b.started = true
	b.setSending(false)
	b.w.WriteHeader(http.StatusOK)
	return b.flush()
}

func (b *liveBody) header() {
	header := b.w.Header()
	header.Set("Content-Type", b.contentType)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // nginx would hold events back
	header.Set("X-Content-Type-Options", "nosniff")
}

// Send implements livestream.Stream.
func (b *liveBody) Send(message []byte) error {
	if b.held != nil {
		return b.write(b.held, message)
	}
	b.setSending(true)
	defer b.setSending(false)
	return errors.Join(b.write(b.w, message), b.flush())
}

// setSending sets the write deadline of an event, and clears it after the event: over
// HTTP/2 its end would end the stream, although nothing is being written.
func (b *liveBody) setSending(sending bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sending = sending; sending {
		b.extend()
	} else {
		_ = b.control.SetWriteDeadline(time.Time{}) // a response recorder has none
	}
}

// setBehind extends the write deadline of an event, since the client has sent something.
func (b *liveBody) setBehind(behind bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.behind = behind; b.sending {
		b.extend()
	}
}

// extend restarts the time to receive an event. A client that sends everything before
// it reads cannot continue while the session is behind, which is as long as a request
// takes at most.
func (b *liveBody) extend() {
	limit := eventSendTimeout
	if b.behind {
		limit = max(limit, b.x.RequestTimeout)
	}
	_ = b.control.SetWriteDeadline(time.Now().Add(limit))
}

func (b *liveBody) write(to io.Writer, message []byte) error {
	if _, err := fmt.Fprintf(to, "%s%s\n%s", b.prefix, message, b.suffix); err != nil {
		return fmt.Errorf("sending an event: %w", err)
	}
	return nil
}

func (b *liveBody) flush() error {
	if err := b.control.Flush(); err != nil {
		return fmt.Errorf("sending an event: %w", err)
	}
	return nil
}

// Hangup implements livestream.Stream.
func (b *liveBody) Hangup(error) { b.lines.Stop(b.linger) }
