package queue

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
	followHeartbeat = 2 * time.Second // a server that is silent for two of them is gone
	followExpiry    = 30 * time.Second
	followIdle      = 10 * time.Second
)

// resetAttempts is how often the library may replace a consumer that is gone.
// Left alone it would try for ever, whatever the context says, and under one
// name, which a server that died may hold. Its caller begins anew instead.
const resetAttempts = 1

// follower reads a stream in order and each message once, the stored ones and
// then live ones, through restarts of servers and lost connections.
type follower struct {
	js     jetstream.JetStream
	stream string
	filter string                  // of subjects
	first  jetstream.DeliverPolicy // where to start without a cursor
	cursor uint64                  // the last sequence that was read
	ahead  int                     // how many messages may wait here
	// idle, when it is set, is asked whether to go on when no message came
	// for followIdle, for the first time, the second, and so on.
	idle  func(ctx context.Context, times int) error
	times int
	log   zerolog.Logger
}

// streamed is a message and where it was stored.
type streamed struct {
	jetstream.Msg
	*jetstream.MsgMetadata
}

var errStopped = errors.New("the reader has enough")

// messages ends with ctx, or with an error of idle, which it yields last.
func (f *follower) messages(ctx context.Context) iter.Seq2[streamed, error] {
	return func(yield func(streamed, error) bool) {
		pause := retryFirst
		for ctx.Err() == nil {
			before := f.cursor
			err := f.read(ctx, yield)
			var enough *idleError
			switch {
			case errors.Is(err, errStopped):
				return
			case errors.As(err, &enough):
				yield(streamed{}, enough.error)
				return
			case f.cursor != before:
				pause = retryFirst
			}
			if ctx.Err() == nil {
				f.log.Debug().Err(err).Str("stream", f.stream).Msg("reading a stream anew")
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			pause = min(2*pause, retryLast)
		}
	}
}

// idleError is an error of idle.
type idleError struct{ error }

// read reads until something fails.
func (f *follower) read(ctx context.Context, yield func(streamed, error) bool) error {
	var consumer jetstream.Consumer
	err := attempt(ctx, func(ctx context.Context) error {
		s, err := f.js.Stream(ctx, f.stream)
		if err != nil {
			return err
		}
		consumer, err = s.OrderedConsumer(ctx, f.config(s.CachedInfo().State))
		return err
	})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(f.ahead), jetstream.PullExpiry(followExpiry), jetstream.PullHeartbeat(followHeartbeat))
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
			return fmt.Errorf("a message of %s: %w", f.stream, err)
		}
		f.cursor = meta.Sequence.Stream
		if !yield(streamed{msg, meta}, nil) {
			return errStopped
		}
	}
}

func (f *follower) config(state jetstream.StreamState) jetstream.OrderedConsumerConfig {
	cfg := jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{f.filter}, DeliverPolicy: f.first,
		InactiveThreshold: ledgerIdle,
		MaxResetAttempts:  resetAttempts,
	}
	if f.cursor > state.LastSeq {
		f.cursor = 0 // the stream was removed and made again
	}
	if f.cursor > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, f.cursor+1
	}
	return cfg
}

func (f *follower) next(ctx context.Context, messages jetstream.MessagesContext) (jetstream.Msg, error) {
	if f.idle == nil {
		return messages.Next(jetstream.NextContext(ctx))
	}
	wait, cancel := context.WithTimeout(ctx, followIdle)
	defer cancel()
	msg, err := messages.Next(jetstream.NextContext(wait))
	switch {
	case err == nil:
		f.times = 0
	case wait.Err() != nil && ctx.Err() == nil:
		f.times++
		if why := f.idle(ctx, f.times); why != nil {
			return nil, &idleError{why}
		}
	}
	return msg, err
}
