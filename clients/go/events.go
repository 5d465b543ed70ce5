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

// silence is how long a stream of events may be still: three of the service's
// heartbeats.
const silence = 45 * time.Second

// Event is something that happened to a model, a training or a label.
type Event struct {
	Sequence uint64          `json:"sequence"` // in the stream, from 1
	Kind     string          `json:"kind"`     // such as model.promoted
	Time     time.Time       `json:"time"`
	Replica  string          `json:"replica"`
	Version  string          `json:"version"`  // of the model
	Training string          `json:"training"` // its id
	By       string          `json:"by"`
	Reason   string          `json:"reason"`  // what happened and why, in a sentence
	Details  json.RawMessage `json:"details"` // figures
}

func (e Event) check() error {
	if e.Sequence == 0 || e.Kind == "" {
		return badAnswer("an event has no sequence or no kind")
	}
	return nil
}

// RecentEvents returns the last events, at most n in [1,1000], the oldest first.
func (c *Client) RecentEvents(ctx context.Context, n int) ([]Event, error) {
	var events []Event
	err := c.do(ctx, get("/v1/events?n="+strconv.Itoa(n), into(&events, func(list []Event) error {
		if list == nil {
			return badAnswer("it is no list of events")
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

// Events yields the events after a sequence (0: from the oldest that is kept),
// and then each as it happens, until ctx ends or the loop is left. A stream that
// breaks off is taken up after the last event, for as long as Retry allows; an
// error is the last that is yielded.
func (c *Client) Events(ctx context.Context, after uint64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for left := false; !left; {
			before := after
			err := c.retry.attempts(ctx, true, func() error {
				err := c.stream(ctx, after, func(e Event) bool {
					after = e.Sequence
					left = !yield(e, nil)
					return !left
				})
				if left || after != before && c.retry.Budget > 0 { // it went well for a while: the budget begins anew
					return nil
				}
				return err
			})
			if err != nil {
				yield(Event{}, err)
				return
			}
			if !left && sleep(ctx, c.retry.First) != nil {
				yield(Event{}, context.Cause(ctx))
				return
			}
		}
	}
}

// errEnded makes the end of a stream, as at a restart of the service, one of
// the failures that pass.
var errEnded = errors.New("the stream of events ended")

// stream passes the events of one connection on until take is done with them.
func (c *Client) stream(ctx context.Context, after uint64, take func(Event) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(silence, func() { cancel(fmt.Errorf("the service was silent for %v", silence)) })
	defer watch.Stop()
	k := get("/v1/events", nil)
	if after > 0 {
		k.path += "?after=" + strconv.FormatUint(after, 10)
	}
	answer, sent, err := c.send(ctx, k, mediaSSE)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			return lost(ctx, sent, err)
		}
		return refusal(answer, body, -1, time.Now())
	}
	lines := newEventReader(answer.Body, func() { watch.Reset(silence) })
	for {
		kind, data, err := lines.next()
		if errors.Is(err, io.EOF) {
			return &TransportError{Sent: true, Err: errEnded}
		}
		if err != nil {
			return lost(ctx, sent, err)
		}
		if kind == "failed" {
			return refusal(&http.Response{StatusCode: http.StatusServiceUnavailable}, data, -1, time.Now())
		}
		var e Event
		if err := json.Unmarshal(data, &e); err != nil {
			return &AnswerError{err}
		}
		if err := e.check(); err != nil {
			return err
		}
		if !take(e) {
			return nil
		}
	}
}
