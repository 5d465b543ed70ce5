package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
	"assay/internal/errorcode"
	"assay/rewardmodel/retrain"
)

const (
	// heartbeatInterval keeps proxies from closing an idle stream.
	heartbeatInterval = 15 * time.Second
	// eventSendTimeout is how long a client may take to receive one event.
	eventSendTimeout = 30 * time.Second
	// reconnectDelay is when a client connects again after the end of a stream.
	reconnectDelay = 2 * time.Second
)

// eventBody is an event with its sequence, from which a client can resume.
type eventBody struct {
	Sequence uint64 `json:"sequence"`
	retrain.Event
}

// eventEndpoints serve /v1/events.
type eventEndpoints struct {
	log        *eventLog
	access     access
	drained    <-chan struct{}
	maxStreams int
	streams    *semaphore.Weighted // open streams, up to maxStreams
}

// serve responds with the stream of events (server-sent events, WHATWG HTML,
// section 9.2), or with the last ones if the client accepts JSON.
func (e eventEndpoints) serve(w http.ResponseWriter, r *http.Request) error {
	if wantsJSON(r.Header.Values("Accept")) {
		return withTimeout(e.list)(w, r)
	}
	from, err := e.start(r)
	if err != nil {
		return err
	}
	if !e.streams.TryAcquire(1) {
		return exchange.Of(r).Unavailable(errorcode.Overloaded, "%d clients follow the events of this process, its limit; close streams that nobody reads, or ask for the list (Accept: application/json)", e.maxStreams)
	}
	defer e.streams.Release(1)
	return e.stream(w, r, from)
}

// list responds from memory once that has everything that the source has, or as it
// is while NATS is unreachable.
func (e eventEndpoints) list(w http.ResponseWriter, r *http.Request) error {
	n, err := countParam(r, "n", 1, defaultEvents)
	if err != nil {
		return err
	}
	after, _, err := afterOf(r)
	if err != nil {
		return err
	}
	_, err = readFleet(r.Context(), func(ctx context.Context) (last uint64, err error) {
		if last, err = e.log.last(ctx); err == nil {
			err = e.log.await(ctx, last)
		}
		return last, err
	})
	if err != nil {
		if !e.log.known() {
			return err
		}
		setAge(w, e.log.age())
	}
	body := []eventBody{}
	for _, a := range e.log.recent(n) {
		if a.err == nil && a.event.Sequence > after {
			body = append(body, eventBody{a.event.Sequence, a.event})
		}
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, body)
}

// start returns where a stream begins: where the client left off, before the last n
// events, or before all that are held.
func (e eventEndpoints) start(r *http.Request) (cursor, error) {
	after, given, err := afterOf(r)
	if err != nil {
		return cursor{}, err
	}
	n, err := countParam(r, "n", 0, maxListed)
	if err != nil {
		return cursor{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	if err := e.log.await(ctx, 0); err != nil {
		return cursor{}, err
	}
	switch {
	case given && after > e.log.newest():
		if err := e.awaitReplicated(ctx, after); err != nil {
			return cursor{}, err
		}
	case !given && r.URL.Query().Has("n"):
		after = e.log.before(n)
	}
	return e.log.after(after), nil
}

// awaitReplicated waits for an event that another replica has sent and that has not
// reached this one yet. An event that the source does not have belongs to another
// stream. While the source does not report which it is, the error wraps
// rewardmodel.ErrNotReady: otherwise the client would get all events again.
func (e eventEndpoints) awaitReplicated(ctx context.Context, sequence uint64) error {
	last, err := e.log.last(ctx)
	if err != nil || sequence > last {
		return err
	}
	return e.log.await(ctx, sequence)
}

// afterOf returns the sequence of the last event that the client received. A browser
// sends it in a header when it reconnects, which is newer than its URL.
func afterOf(r *http.Request) (after uint64, given bool, err error) {
	for _, param := range []struct{ field, value string }{
		{"after", r.URL.Query().Get("after")},
		{"Last-Event-ID", r.Header.Get("Last-Event-ID")},
	} {
		if param.value == "" {
			continue
		}
		if after, err = strconv.ParseUint(param.value, 10, 64); err != nil {
			return 0, false, failure.Invalid(param.field, "%.50q is not the sequence of an event; send the id of the last one that was seen, or 0", param.value)
		}
		given = true
	}
	return after, given, nil
}

// wantsJSON parses Accept: it lists JSON and not the stream.
func wantsJSON(values []string) bool {
	accepted := false
	for part := range strings.SplitSeq(strings.Join(values, ","), ",") {
		kind, _, _ := strings.Cut(part, ";")
		switch strings.ToLower(strings.TrimSpace(kind)) {
		case "text/event-stream":
			return false
		case "application/json":
			accepted = true
		}
	}
	return accepted
}

// stream writes events until the client leaves, the service drains, the source
// fails, or the token of the client loses its scope. An event named failed carries
// the reason of the last two, and reports an event that cannot be read.
func (e eventEndpoints) stream(w http.ResponseWriter, r *http.Request, from cursor) error {
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
	ended := e.relay(r, stream, &from)
	x := exchange.Of(r)
	x.Err = errors.Join(x.Err, ended)
	return nil
}

// relay sends events to one client. Its error is why it ended; nil if the client
// left, or must connect elsewhere.
func (e eventEndpoints) relay(r *http.Request, stream eventStream, at *cursor) error {
	heartbeat := time.NewTicker(heartbeatInterval)
	defer heartbeat.Stop()
	for !isClosed(e.drained) && r.Context().Err() == nil {
		tokens := e.access.tokens.changed()
		if _, err := e.access.authorize(callerOf(r), ScopeFeedback); err != nil {
			return errors.Join(err, sendFailure(exchange.Of(r), stream, "", err))
		}
		batch, changed, err := e.log.next(at)
		if err != nil {
			return errors.Join(err, sendFailure(exchange.Of(r), stream, "", err))
		}
		for _, a := range batch {
			if err := sendEvent(exchange.Of(r), stream, a); err != nil {
				return err
			}
		}
		if len(batch) > 0 {
			continue
		}
		select {
		case <-changed:
		case <-tokens:
		case <-heartbeat.C:
			if err := stream.send(": still here\n\n"); err != nil {
				return err
			}
		case <-e.drained:
		case <-r.Context().Done():
		}
	}
	return nil
}

// sendEvent sends an event with its sequence as the id.
func sendEvent(x *exchange.Exchange, stream eventStream, a entry) error {
	id := fmt.Sprintf("id: %d\n", a.event.Sequence)
	if a.err != nil {
		x.Err = a.err
		return sendFailure(x, stream, id, a.err)
	}
	return stream.sendJSON(id, string(a.event.Kind), eventBody{a.event.Sequence, a.event})
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
