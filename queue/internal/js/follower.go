package js

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
)

const (
	followHeartbeat = 2 * time.Second // a server that misses two heartbeats counts as lost
	followExpiry    = 30 * time.Second
	followIdle      = 10 * time.Second
)

// Follower reads a stream in order and each message once, the stored messages and
// then new ones, through restarts of servers and lost connections.
type Follower struct {
	JetStream jetstream.JetStream
	Stream    string
	Filter    string                  // subject filter
	Start     jetstream.DeliverPolicy // where to start without a cursor
	Cursor    uint64                  // the last sequence that was read
	Prefetch  int                     // maximum number of messages that are buffered in memory
	// OnIdle, if set, is called when no message has arrived for 10 s: times counts
	// the calls since the last message. An error ends Messages.
	OnIdle func(ctx context.Context, times int) error
	Log    zerolog.Logger

	idle    int       // calls of OnIdle since the last message
	created time.Time // of the stream that was read last
}

// Streamed is a message with its position in the stream.
type Streamed struct {
	jetstream.Msg
	*jetstream.MsgMetadata
}

// errStopped is returned when the caller of an iterator stops it.
var errStopped = errors.New("the iteration was stopped")

// Messages yields the messages until ctx ends, or until OnIdle returns an error,
// which it yields last.
func (f *Follower) Messages(ctx context.Context) iter.Seq2[Streamed, error] {
	return func(yield func(Streamed, error) bool) {
		for failures := uint64(1); ctx.Err() == nil; failures++ {
			before := f.Cursor
			err := f.read(ctx, yield)
			var idle *idleError
			switch {
			case errors.Is(err, errStopped):
				return
			case errors.As(err, &idle):
				yield(Streamed{}, idle.error)
				return
			case f.Cursor != before:
				failures = 1
			}
			if ctx.Err() == nil {
				f.Log.Debug().Err(err).Str("stream", f.Stream).Msg("reopening a stream")
			}
			Sleep(ctx, standard().Delay(failures))
		}
	}
}

// idleError is an error of OnIdle.
type idleError struct{ error }

// read reads until something fails.
func (f *Follower) read(ctx context.Context, yield func(Streamed, error) bool) error {
	var stream jetstream.Stream
	var consumer jetstream.Consumer
	var cursor uint64
	err := attempt(ctx, func(ctx context.Context) (err error) {
		if stream, err = f.JetStream.Stream(ctx, f.Stream); err != nil {
			return err
		}
		cursor = f.cursorIn(stream.CachedInfo())
		consumer, err = OrderedConsumer(ctx, stream, f.config(cursor))
		return err
	})
	if err != nil {
		return err
	}
	defer RemoveConsumer(ctx, stream, consumer)
	// Only now: a server that is cut off from the others may describe the stream as it was,
	// but cannot create a consumer.
	f.Cursor, f.created = cursor, stream.CachedInfo().Created
	messages, err := consumer.Messages(jetstream.PullMaxMessages(f.Prefetch), jetstream.PullExpiry(followExpiry), jetstream.PullHeartbeat(followHeartbeat))
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		msg, err := f.next(ctx, messages)
		if err != nil {
			return err
		}
		meta, err := msg.Metadata()
		if err != nil {
			return fmt.Errorf("a message of %s: %w", f.Stream, err)
		}
		f.Cursor = meta.Sequence.Stream
		if !yield(Streamed{msg, meta}, nil) {
			return errStopped
		}
	}
}

// cursorIn returns the last sequence that was read of a stream as it is now: 0 if it was
// deleted and created again, or has lost its end and will use those sequences again.
func (f *Follower) cursorIn(stream *jetstream.StreamInfo) uint64 {
	if another := !f.created.IsZero() && !f.created.Equal(stream.Created); another || f.Cursor > stream.State.LastSeq {
		return 0
	}
	return f.Cursor
}

func (f *Follower) config(cursor uint64) jetstream.OrderedConsumerConfig {
	cfg := jetstream.OrderedConsumerConfig{FilterSubjects: []string{f.Filter}, DeliverPolicy: f.Start}
	if cursor > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, cursor+1
	}
	return cfg
}

func (f *Follower) next(ctx context.Context, messages jetstream.MessagesContext) (jetstream.Msg, error) {
	if f.OnIdle == nil {
		return messages.Next(jetstream.NextContext(ctx))
	}
	wait, cancel := context.WithTimeout(ctx, followIdle)
	defer cancel()
	msg, err := messages.Next(jetstream.NextContext(wait))
	switch {
	case err == nil:
		f.idle = 0
	case wait.Err() != nil && ctx.Err() == nil:
		f.idle++
		if idleErr := f.OnIdle(ctx, f.idle); idleErr != nil {
			return nil, &idleError{idleErr}
		}
	}
	return msg, err
}
