package assay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"
)

// streamIdleTimeout is how long an event stream may be silent: three heartbeats of
// the service.
const streamIdleTimeout = 45 * time.Second

// Event is an event in the life of a model, a training run or a label.
type Event struct {
	Sequence uint64          `json:"sequence"` // in the stream, from 1
	Kind     string          `json:"kind"`     // such as model.promoted
	Time     time.Time       `json:"time"`
	Replica  string          `json:"replica"`
	Version  string          `json:"version"`  // of the model
	Training string          `json:"training"` // id of the training run
	By       string          `json:"by"`
	Reason   string          `json:"reason"`  // what happened and why
	Details  json.RawMessage `json:"details"` // metrics
}

func (e Event) check() error {
	if e.Sequence == 0 || e.Kind == "" {
		return invalidResponse("an event lacks its sequence or kind")
	}
	return nil
}

// RecentEvents returns the last n events, n in [1,1000], oldest first.
func (c *Client) RecentEvents(ctx context.Context, n int) ([]Event, error) {
	var events []Event
	err := c.do(ctx, get("/v1/events?n="+strconv.Itoa(n), into(&events, func(list []Event) error {
		if list == nil {
			return invalidResponse("not a list of events")
		}
		for _, e := range list {
			if err := e.check(); err != nil {
				return err
			}
		}
		return nil
	})))
	return events, err
}

// Events yields the retained events after a sequence number (0 for all), and then
// each new event, until ctx ends or the loop is left. It reconnects after the
// last event as Retry allows, and leaves out an event that the service cannot read. An
// error ends the sequence.
func (c *Client) Events(ctx context.Context, after uint64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for stopped := false; !stopped; {
			before := after
			err := c.retry.attempts(ctx, true, func() error {
				err := c.stream(ctx, &after, func(e Event) bool {
					stopped = !yield(e, nil)
					return !stopped
				})
				if stopped || after != before && c.retry.Budget > 0 { // events arrived: the retry budget starts over
					return nil
				}
				return err
			})
			if err != nil {
				yield(Event{}, err)
				return
			}
			if !stopped && sleep(ctx, c.retry.InitialBackoff) != nil {
				yield(Event{}, context.Cause(ctx))
				return
			}
		}
	}
}

// errStreamEnded is a transient failure: a restart of the service ends the stream.
var errStreamEnded = errors.New("the event stream ended")

// stream calls handle for the events of one connection until it returns false. It keeps
// the sequence of the last event in after.
func (c *Client) stream(ctx context.Context, after *uint64, handle func(Event) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(streamIdleTimeout, func() { cancel(fmt.Errorf("no event or heartbeat for %v", streamIdleTimeout)) })
	defer watchdog.Stop()
	k := get("/v1/events", nil)
	if *after > 0 {
		k.path += "?after=" + strconv.FormatUint(*after, 10)
	}
	response, sent, err := c.send(ctx, k, mediaSSE)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return transportError(ctx, sent, err)
		}
		return newAPIError(response, body, -1, time.Now())
	}
	lines := newEventReader(response.Body, func() { watchdog.Reset(streamIdleTimeout) })
	for {
		id, kind, data, err := lines.next()
		if errors.Is(err, io.EOF) {
			return &TransportError{Sent: true, Err: errStreamEnded}
		}
		if err != nil {
			return transportError(ctx, sent, err)
		}
		if kind == "failed" {
			// With an id it takes the place of an event that cannot be read, and would
			// again after a reconnection.
			if sequence, err := strconv.ParseUint(id, 10, 64); err == nil && sequence > 0 {
				*after = sequence
				continue
			}
			return newAPIError(&http.Response{StatusCode: http.StatusServiceUnavailable}, data, -1, time.Now())
		}
		var e Event
		if err := json.Unmarshal(data, &e); err != nil {
			return &InvalidResponseError{err}
		}
		if err := e.check(); err != nil {
			return err
		}
		*after = e.Sequence
		if !handle(e) {
			return nil
		}
	}
}
