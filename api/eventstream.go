package api

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"assay/api/access"
	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
	"assay/internal/errorcode"
)

const (
	// heartbeatInterval keeps proxies from closing an idle stream.
	heartbeatInterval = 15 * time.Second
	// eventSendTimeout is how long a client may take to receive one event.
	eventSendTimeout = 30 * time.Second
	// reconnectDelay is when a client connects again after the end of a stream.
	reconnectDelay = 2 * time.Second
)

// feed is where the stream of one client takes its messages from.
type feed interface {
	// next returns the messages that follow those that it returned before. If there
	// are none, it returns a channel that is closed when there may be some, or why
	// there will be none.
	next() (messages []message, changed <-chan struct{}, err error)
}

// message is a server-sent event.
type message struct {
	id   uint64 // a client that reconnects continues after it
	kind string
	body any   // sent as JSON
	err  error // why there is no body
}

// eventStreams serve feeds as server-sent events (WHATWG HTML, section 9.2).
type eventStreams struct {
	authorizer access.Authorizer
	drained    <-chan struct{}
	limit      int
	open       *semaphore.Weighted // streams, up to limit
}

func newEventStreams(a access.Authorizer, drained <-chan struct{}, limit int) eventStreams {
	return eventStreams{authorizer: a, drained: drained, limit: limit, open: semaphore.NewWeighted(int64(limit))}
}

// serve sends messages until the client leaves, the service drains, the feed fails,
// or the token of the client loses its scope. A message named failed carries the
// reason of the last two, and reports a message without a body.
func (s eventStreams) serve(w http.ResponseWriter, r *http.Request, from feed) error {
	if !s.open.TryAcquire(1) {
		return exchange.Of(r).Unavailable(errorcode.Overloaded, "%d event streams are open, the limit of this process; close unused streams, or request the list (Accept: application/json)", s.limit)
	}
	defer s.open.Release(1)
	stream := eventStream{w: w, control: http.NewResponseController(w)}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // nginx would hold events back
	header.Set("X-Content-Type-Options", "nosniff")
	// The deadlines of the connection are meant for requests with one response.
	_ = stream.control.SetReadDeadline(time.Time{})
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead || stream.send("retry: %d\n\n", reconnectDelay.Milliseconds()) != nil {
		return nil //nolint:nilerr // the client left
	}
	// The status was sent: the reason is for the log.
	ended := s.relay(r, stream, from)
	x := exchange.Of(r)
	x.Err = errors.Join(x.Err, ended)
	return nil
}

// relay sends messages to one client. Its error is why it ended; nil if the client
// left, or must connect elsewhere.
func (s eventStreams) relay(r *http.Request, stream eventStream, from feed) error {
	heartbeat := time.NewTicker(heartbeatInterval)
	defer heartbeat.Stop()
	for !isClosed(s.drained) && r.Context().Err() == nil {
		tokens := s.authorizer.Tokens.Changed()
		if err := s.authorizer.Check(access.CallerOf(r), access.ScopeFeedback); err != nil {
			return errors.Join(err, sendFailure(exchange.Of(r), stream, "", err))
		}
		messages, changed, err := from.next()
		if err != nil {
			return errors.Join(err, sendFailure(exchange.Of(r), stream, "", err))
		}
		for _, m := range messages {
			if err := sendMessage(exchange.Of(r), stream, m); err != nil {
				return err
			}
		}
		if len(messages) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-tokens:
		case <-heartbeat.C:
			if err := stream.send(": still here\n\n"); err != nil {
				return err
			}
		case <-s.drained:
		case <-r.Context().Done():
		}
	}
	return nil
}

func sendMessage(x *exchange.Exchange, stream eventStream, m message) error {
	id := fmt.Sprintf("id: %d\n", m.id)
	if m.err != nil {
		x.Err = m.err
		return sendFailure(x, stream, id, m.err)
	}
	return stream.sendJSON(id, m.kind, m.body)
}

func sendFailure(x *exchange.Exchange, stream eventStream, id string, err error) error {
	return stream.sendJSON(id, "failed", failure.Response{Error: x.Failure(err).Body(x.ID)})
}

// oneLine removes the final newline of an encoder; JSON has no other.
func oneLine(data []byte) string { return strings.TrimSuffix(string(data), "\n") }

// eventStream sends each event immediately.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (s eventStream) sendJSON(id, kind string, body any) error {
	data, err := httpjson.Encode(nil, body)
	if err != nil {
		return err
	}
	return s.send("%sevent: %s\ndata: %s\n\n", id, kind, oneLine(data))
}

// send fails if the client does not receive the text within eventSendTimeout.
func (s eventStream) send(format string, args ...any) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(eventSendTimeout)) // a recorder has none
	if _, err := fmt.Fprintf(s.w, format, args...); err != nil {
		return fmt.Errorf("sending an event: %w", err)
	}
	if err := s.control.Flush(); err != nil {
		return fmt.Errorf("sending an event: %w", err)
	}
	return nil
}
