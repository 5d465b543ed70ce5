package api

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/assay-ai/assay/rewardmodel/retrain"
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
	after, err := s.startOfEvents(r)
	if err != nil {
		return err
	}
	return s.streamEvents(w, r, after)
}

func (s *Server) listEvents(w http.ResponseWriter, r *http.Request) error {
	n, err := count(r, "n", 1, defaultEvents)
	if err != nil {
		return err
	}
	after, _, err := afterOf(r)
	if err != nil {
		return err
	}
	events, err := s.parts.Events.RecentEvents(r.Context(), n)
	if err != nil {
		return err
	}
	body := []eventBody{}
	for _, e := range events {
		if e.Sequence > after {
			body = append(body, eventBody{e.Sequence, e})
		}
	}
	return s.writeJSON(w, r, http.StatusOK, body)
}

// startOfEvents is the sequence after which a stream begins: where the client
// left off, or before the last n events, or before all that are kept.
func (s *Server) startOfEvents(r *http.Request) (uint64, error) {
	after, given, err := afterOf(r)
	if err != nil {
		return 0, err
	}
	n, err := count(r, "n", 0, mostListed)
	if err != nil {
		return 0, err
	}
	// Asking for some tells in time whether there is a stream at all.
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.RequestTimeout)
	defer cancel()
	recent, err := s.parts.Events.RecentEvents(ctx, max(n, 1))
	if err != nil {
		return 0, err
	}
	last := uint64(0)
	if len(recent) > 0 {
		last = recent[len(recent)-1].Sequence
	}
	switch {
	case given && after <= last:
		return after, nil
	case given: // of another stream, whose place this one took
		return 0, nil
	case !r.URL.Query().Has("n"):
		return 0, nil
	case n == 0 || len(recent) == 0:
		return last, nil
	}
	return recent[0].Sequence - 1, nil
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

// streamEvents writes events until the client leaves, the service drains, or
// the source ends. An event that cannot be read is told as one named failed.
func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request, after uint64) error {
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
		return nil
	}

	ctx, stop := context.WithCancel(r.Context())
	events := follow(ctx, s.parts.Events.Events(ctx, after))
	defer func() {
		stop()
		for range events { // until the source has ended
		}
	}()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		var err error
		select {
		case e, more := <-events:
			if !more {
				return nil
			}
			err = s.sendEvent(exchangeOf(r), stream, e)
		case <-beat.C:
			err = stream.send(": still here\n\n")
		case <-s.drained:
			return nil
		case <-ctx.Done():
			return nil
		}
		if err != nil {
			exchangeOf(r).err = err
			return nil
		}
	}
}

// arrival is an event, or why there are no more.
type arrival struct {
	event retrain.Event
	err   error
}

// follow runs the source on a goroutine of its own, which ends with ctx or with
// the source, and then closes the channel.
func follow(ctx context.Context, source iter.Seq2[retrain.Event, error]) <-chan arrival {
	events := make(chan arrival)
	go func() {
		defer close(events)
		for e, err := range source {
			select {
			case events <- arrival{e, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return events
}

func (s *Server) sendEvent(x *exchange, stream eventStream, a arrival) error {
	kind, body := string(a.event.Kind), any(eventBody{a.event.Sequence, a.event})
	switch {
	case errors.Is(a.err, context.Canceled):
		return nil // our own doing
	case a.err != nil:
		x.err = a.err
		kind, body = "failed", failedBody{s.explain(a.err, x.id).body(x.id)}
	}
	data, err := encode(nil, body)
	if err != nil {
		return err
	}
	id := ""
	if a.event.Sequence > 0 {
		id = fmt.Sprintf("id: %d\n", a.event.Sequence)
	}
	return stream.send("%sevent: %s\ndata: %s\n\n", id, kind, oneLine(data))
}

// oneLine drops the newline that an encoder ends with; JSON has no other.
func oneLine(data []byte) string { return strings.TrimSuffix(string(data), "\n") }

// eventStream sends at once what it is given.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
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
