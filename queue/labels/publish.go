package labels

import (
	"context"
	"fmt"
	"time"

	"assay/queue/internal/js"
	"assay/rewardmodel/feedback"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// maxAttempts is how often one record is published before the request fails.
	maxAttempts = 5

	// firstAttempt bounds the first attempt to store a record; each further one
	// may take twice as long. A server that cannot write, as with a full disk,
	// does not reply at all.
	firstAttempt = time.Second
)

// put stores msg and returns its sequence; it retries when no reply comes. Errors
// wrap feedback.ErrStoreFull or feedback.ErrUnavailable, or are that of ctx, or
// satisfy js.WrongSequence or js.TooLarge.
func (l *Log) put(ctx context.Context, msg *nats.Msg) (sequence uint64, err error) {
	if err := l.slots.Acquire(ctx, 1); err != nil {
		return 0, unavailable(ctx, err)
	}
	defer l.slots.Release(1)
	final := func(err error) bool { return js.WrongSequence(err) || js.TooLarge(err) }
	err = l.persist(ctx, final, func(ctx context.Context) error {
		ack, err := l.publish(ctx, msg, jetstream.WithExpectStream(StreamFeedback))
		if err == nil {
			sequence = ack.Sequence
			l.acknowledge(sequence)
		}
		return err
	})
	return sequence, err
}

// persist calls store until the server replies. It returns an error that is final
// unchanged; other errors wrap feedback.ErrStoreFull or feedback.ErrUnavailable, or
// are that of ctx.
func (l *Log) persist(ctx context.Context, final func(error) bool, store func(context.Context) error) error {
	for attempt := uint64(1); ; attempt++ {
		if err := l.writable(); err != nil {
			return unavailable(ctx, err)
		}
		try, cancel := context.WithTimeout(ctx, firstAttempt<<(attempt-1))
		err := store(try)
		cancel()
		switch {
		case err == nil, final(err):
			return err
		case js.Full(err):
			return fmt.Errorf("%w (stream %s: %w); erase feedback, or give the stream more bytes", feedback.ErrStoreFull, StreamFeedback, err)
		case attempt == maxAttempts || ctx.Err() != nil:
			return unavailable(ctx, fmt.Errorf("stream %s: %w", StreamFeedback, js.Explain(err)))
		}
		js.Sleep(ctx, backoff().Delay(attempt))
	}
}

// writable returns why nothing can be stored now, or nil.
func (l *Log) writable() error {
	if err := l.cfg.Healthy(); err != nil {
		return err
	}
	if status := l.nc.Status(); status != nats.CONNECTED {
		return fmt.Errorf("the connection to NATS is %v", status)
	}
	return nil
}
