package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"assay/rewardmodel/retrain"
)

const (
	// heartbeat keeps proxies from closing a stream on which nothing happens.
	heartbeat = 15 * time.Second
	// eventPatience is how long a client may take to receive one event.
	eventPatience = 30 * time.Second
	// reconnect is when a client comes back after the end of a stream.
	reconnect = 2 * time.Second
)

// eventBody is an event with its place in the stream, from which a client can
// go on.
type eventBody struct {
	Sequence uint64 `json:"sequence"`
	retrain.Event
}

// showEvents answers with the stream of events (server-sent events, WHATWG HTML,
// section 9.2), or with the last ones when JSON is asked for.
func (s *Server) showEvents(w http.ResponseWriter, r *http.Request) error {
	if wantsJSON(r.Header.Values("Accept")) {
		return s.timely(s.listEvents)(w, r)
	}
	from, err := s.startOfEvents(r)
	if err != nil {
		return err
	}
	if !s.eventStreams.TryAcquire(1) {
		return s.errUnavailable("overloaded", "%d clients follow the events of this process, its limit; close streams that nobody reads, or ask for the list (Accept: application/json)", s.cfg.MaxEventStreams)
	}
	defer s.eventStreams.Release(1)
	return s.streamEvents(w, r, from)
}

// listEvents answers from memory once that has all that the source has; while
// NATS is away, as it is.
func (s *Server) listEvents(w http.ResponseWriter, r *http.Request) error {
	n, err := count(r, "n", 1, defaultEvents)
	if err != nil {
		return err
	}
	after, _, err := afterOf(r)
	if err != nil {
		return err
	}
	_, err = read(r.Context(), func(ctx context.Context) (last uint64, err error) {
		if last, err = s.events.last(ctx); err == nil {
			err = s.events.await(ctx, last)
		}
		return last, err
	})
	if err != nil {
		if !s.events.known() {
			return err
		}
		setAge(w, s.events.age())
	}
	body := []eventBody{}
	for _, a := range s.events.recent(n) {
		if a.err == nil && a.event.Sequence > after {
			body = append(body, eventBody{a.event.Sequence, a.event})
		}
	}
	return s.writeJSON(w, r, http.StatusOK, body)
}

// startOfEvents is where a stream begins: where the client left off, or before
// the last n events, or before all that are held.
func (s *Server) startOfEvents(r *http.Request) (cursor, error) {
	after, given, err := afterOf(r)
	if err != nil {
		return cursor{}, err
	}
	n, err := count(r, "n", 0, mostListed)
	if err != nil {
		return cursor{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), readWithin)
	defer cancel()
	if err := s.events.await(ctx, 0); err != nil {
		return cursor{}, err
	}
	switch {
	case given && after > s.events.newest():
		if err := s.awaitShown(ctx, after); err != nil {
			return cursor{}, err
		}
	case !given && r.URL.Query().Has("n"):
		after = s.events.before(n)
	}
	return s.events.after(after), nil
}

// awaitShown waits for an event that another replica has shown and that is on
// its way to this one. One that the source does not have is of another stream.
// While the source does not say which it is, the error wraps ErrNotReady: the
// client would get all events again.
func (s *Server) awaitShown(ctx context.Context, sequence uint64) error {
	last, err := s.events.last(ctx)
	if err != nil || sequence > last {
		return err
	}
	return s.events.await(ctx, sequence)
}

// afterOf is the sequence of the event that the client saw last. A browser says
// it in a header when it reconnects, which is newer than its address.
func afterOf(r *http.Request) (after uint64, given bool, err error) {
	for _, said := range []struct{ field, value string }{
		{"after", r.URL.Query().Get("after")},
		{"Last-Event-ID", r.Header.Get("Last-Event-ID")},
	} {
		if said.value == "" {
			continue
		}
		if after, err = strconv.ParseUint(said.value, 10, 64); err != nil {
			return 0, false, errInvalid(said.field, "%.50q is not the sequence of an event; send the id of the last one that was seen, or 0", said.value)
		}
		given = true
	}
	return after, given, nil
}

// wantsJSON reads Accept: JSON is named and the stream is not.
func wantsJSON(values []string) bool {
	asked := false
	for part := range strings.SplitSeq(strings.Join(values, ","), ",") {
		kind, _, _ := strings.Cut(part, ";")
		switch strings.ToLower(strings.TrimSpace(kind)) {
		case "text/event-stream":
			return false
		case "application/json":
			asked = true
		}
	}
	return asked
}

// streamEvents writes events until the client leaves, the service drains, the
// source fails, or the token of the client may not see them any more. The reason
// of the last two comes as an event named failed; so does an event that cannot
// be read.
func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request, from cursor) error {
	stream := eventStream{w: w, control: http.NewResponseController(w)}
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no") // nginx would hold events back
	header.Set("X-Content-Type-Options", "nosniff")
	// The connection's deadlines are those of a request with an answer.
	_ = stream.control.SetReadDeadline(time.Time{})
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead || stream.send("retry: %d\n\n", reconnect.Milliseconds()) != nil {
		return nil //nolint:nilerr // the client left
	}
	// The status was sent: why it ended is for the log.
	ended := s.relay(r, stream, &from)
	x := exchangeOf(r)
	x.err = errors.Join(x.err, ended)
	return nil
}

// relay sends events to one client. Its error is why it ended; nil when the
// client left, or is asked to go elsewhere.
func (s *Server) relay(r *http.Request, stream eventStream, at *cursor) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for !s.draining() && r.Context().Err() == nil {
		tokens := s.parts.Tokens.changed()
		if _, err := s.authorize(callerOf(r), ScopeFeedback); err != nil {
			return errors.Join(err, s.sendFailure(exchangeOf(r), stream, "", err))
		}
		batch, moved, err := s.events.next(at)
		if err != nil {
			return errors.Join(err, s.sendFailure(exchangeOf(r), stream, "", err))
		}
		for _, a := range batch {
			if err := s.sendEvent(exchangeOf(r), stream, a); err != nil {
				return err
			}
		}
		if len(batch) > 0 {
			continue
		}
		select {
		case <-moved:
		case <-tokens:
		case <-beat.C:
			if err := stream.send(": still here\n\n"); err != nil {
				return err
			}
		case <-s.drained:
		case <-r.Context().Done():
		}
	}
	return nil
}

// sendEvent sends an event with its sequence for an id.
func (s *Server) sendEvent(x *exchange, stream eventStream, a arrival) error {
	id := fmt.Sprintf("id: %d\n", a.event.Sequence)
	if a.err != nil {
		x.err = a.err
		return s.sendFailure(x, stream, id, a.err)
	}
	return stream.sendJSON(id, string(a.event.Kind), eventBody{a.event.Sequence, a.event})
}

func (s *Server) sendFailure(x *exchange, stream eventStream, id string, err error) error {
	return stream.sendJSON(id, "failed", failedBody{s.explain(err, x.id).body(x.id)})
}

// oneLine drops the newline that an encoder ends with; JSON has no other.
func oneLine(data []byte) string { return strings.TrimSuffix(string(data), "\n") }

// eventStream sends at once what it is given.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (s eventStream) sendJSON(id, kind string, body any) error {
	data, err := encode(nil, body)
	if err != nil {
		return err
	}
	return s.send("%sevent: %s\ndata: %s\n\n", id, kind, oneLine(data))
}

// send fails when the client does not take the text within eventPatience.
func (s eventStream) send(format string, args ...any) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(eventPatience)) // a recorder has none
	if _, err := fmt.Fprintf(s.w, format, args...); err != nil {
		return fmt.Errorf("sending an event: %w", err)
	}
	if err := s.control.Flush(); err != nil {
		return fmt.Errorf("sending an event: %w", err)
	}
	return nil
}
