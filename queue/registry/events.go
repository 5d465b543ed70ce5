package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/xid"

	"assay/queue/internal/js"
	"assay/rewardmodel/retrain"
)

// eventsPrefetch is the maximum number of events that a reader buffers.
const eventsPrefetch = 100

// Publish stores an event on assay.v1.events.<kind>, as the JSON of retrain.Event. It
// drops an event whose key was stored in the last day, without an error. The default
// of its time is now.
func (r *Registry) Publish(ctx context.Context, e retrain.Event) error {
	if e.Kind == "" || strings.ContainsAny(string(e.Kind), " \t\r\n*>") {
		return fmt.Errorf("event of kind %q: the kind is part of a subject", e.Kind)
	}
	if e.Time.IsZero() {
		e.Time = time.Now().UTC()
	}
	data, err := json.Marshal(e, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("event %s: %w", e.Kind, err)
	}
	if limit := r.nc.MaxPayload() - js.HeaderReserve; int64(len(data)) > limit {
		return fmt.Errorf("event %s: %d bytes are more than the %d of a NATS message: %w; raise max_payload of the server",
			e.Kind, len(data), limit, nats.ErrMaxPayload)
	}
	msg := &nats.Msg{Subject: SubjectEvents + "." + string(e.Kind), Data: data, Header: nats.Header{}}
	// Without a key, a unique id makes a retry after a lost acknowledgement the
	// same event.
	msg.Header.Set(jetstream.MsgIDHeader, cmp.Or(e.Key, xid.New().String()))
	if e.Version != "" {
		msg.Header.Set(js.HeaderModelVersion, js.HeaderValue(e.Version))
	}
	js.Seal(msg.Subject, msg.Header, data)
	err = js.Retry(ctx, func(ctx context.Context) error {
		_, err := r.js.PublishMsg(ctx, msg)
		return err
	})
	if err != nil {
		return fmt.Errorf("event %s: %w", e.Kind, err)
	}
	return nil
}

// Events returns the stored events after a sequence, 0 for all, and then each new one,
// until ctx ends. Restarts of the server do not end it. If events were dropped by age,
// it continues with the oldest. An error is about one event that cannot be read.
func (r *Registry) Events(ctx context.Context, after uint64) iter.Seq2[retrain.Event, error] {
	return func(yield func(retrain.Event, error) bool) {
		f := r.follow(after)
		for msg, err := range f.Messages(ctx) {
			if err != nil {
				return
			}
			e, err := decodeEvent(msg)
			if errors.Is(err, js.ErrDamaged) {
				r.damage.Report(js.DamagedRecord{Stream: StreamEvents, Subject: msg.Subject(), Sequence: msg.Sequence.Stream})
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// LastEvent returns the sequence of the last stored event, 0 without one.
func (r *Registry) LastEvent(ctx context.Context) (sequence uint64, err error) {
	err = js.Retry(ctx, func(ctx context.Context) error {
		msg, err := r.events.GetLastMsgForSubject(ctx, SubjectEvents+".>")
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err == nil {
			sequence = msg.Sequence
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("last event: %w", err)
	}
	return sequence, nil
}

func (r *Registry) follow(after uint64) *js.Follower {
	return &js.Follower{JetStream: r.js, Stream: StreamEvents, Filter: SubjectEvents + ".>", Cursor: after, Prefetch: eventsPrefetch, Log: r.log}
}

// errUnrecognizedEvent reports that a message of ASSAY_EVENTS is not authentic.
var errUnrecognizedEvent = errors.New("assay did not write it")

func decodeEvent(msg js.Streamed) (retrain.Event, error) {
	e := retrain.Event{Sequence: msg.Sequence.Stream}
	if _, err := js.Verify(msg.Subject(), msg.Headers(), msg.Data()); err != nil {
		return e, fmt.Errorf("event %d of %s: %w", e.Sequence, StreamEvents, err)
	}
	if !js.Authentic(msg.Subject(), msg.Headers()) {
		return e, fmt.Errorf("event %d of %s: %w", e.Sequence, StreamEvents, errUnrecognizedEvent)
	}
	err := json.Unmarshal(msg.Data(), &e)
	e.Sequence, e.Key = msg.Sequence.Stream, msg.Headers().Get(jetstream.MsgIDHeader)
	if err != nil {
		return e, errors.Join(fmt.Errorf("event %d of %s cannot be read", e.Sequence, StreamEvents), err)
	}
	return e, nil
}
