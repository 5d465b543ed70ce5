package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"assay/api/internal/eventlog"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
	"assay/rewardmodel/retrain"
)

// eventBody is an event with its sequence, from which a client can resume.
type eventBody struct {
	Sequence uint64 `json:"sequence"`
	retrain.Event
}

// eventEndpoints serve /v1/events.
type eventEndpoints struct {
	log     *eventlog.Log
	streams eventStreams
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
	return e.streams.serve(w, r, &eventFeed{log: e.log, at: from})
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
		if last, err = e.log.Last(ctx); err == nil {
			err = e.log.Await(ctx, last)
		}
		return last, err
	})
	if err != nil {
		if !e.log.CaughtUp() {
			return err
		}
		setAge(w, e.log.Age())
	}
	body := []eventBody{}
	for _, entry := range e.log.Recent(n) {
		if entry.Err == nil && entry.Event.Sequence > after {
			body = append(body, eventBody{entry.Event.Sequence, entry.Event})
		}
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, body)
}

// start returns where a stream begins: where the client left off, before the last n
// events, or before all that are held.
func (e eventEndpoints) start(r *http.Request) (eventlog.Cursor, error) {
	after, given, err := afterOf(r)
	if err != nil {
		return eventlog.Cursor{}, err
	}
	n, err := countParam(r, "n", 0, maxListed)
	if err != nil {
		return eventlog.Cursor{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), readTimeout)
	defer cancel()
	if err := e.log.Await(ctx, 0); err != nil {
		return eventlog.Cursor{}, err
	}
	switch {
	case given && after > e.log.Newest():
		if err := e.awaitReplicated(ctx, after); err != nil {
			return eventlog.Cursor{}, err
		}
	case !given && r.URL.Query().Has("n"):
		after = e.log.Before(n)
	}
	return e.log.After(after), nil
}

// awaitReplicated waits for an event that another replica has sent and that has not
// reached this one yet. An event that the source does not have belongs to another
// stream. While the source does not report which it is, the error wraps
// rewardmodel.ErrNotReady: otherwise the client would get all events again.
func (e eventEndpoints) awaitReplicated(ctx context.Context, sequence uint64) error {
	last, err := e.log.Last(ctx)
	if err != nil || sequence > last {
		return err
	}
	return e.log.Await(ctx, sequence)
}

// afterOf returns the sequence of the last event that a client received. A browser
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
			return 0, false, failure.Invalid(param.field, "%.50q is not the sequence of an event; send the id of the last event that you received, or 0", param.value)
		}
		given = true
	}
	return after, given, nil
}

// eventFeed feeds the events to one client.
type eventFeed struct {
	log *eventlog.Log
	at  eventlog.Cursor
}

// next implements feed.
func (f *eventFeed) next() (messages []message, changed <-chan struct{}, err error) {
	batch, changed, err := f.log.Next(&f.at)
	for _, entry := range batch {
		messages = append(messages, message{
			id: entry.Event.Sequence, kind: string(entry.Event.Kind), body: eventBody{entry.Event.Sequence, entry.Event}, err: entry.Err,
		})
	}
	return messages, changed, err
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
