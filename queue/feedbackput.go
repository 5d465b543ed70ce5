package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"assay/rewardmodel/feedback"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// feedbackAttempts is how often one record is published before the batch is
// given back as one that cannot be stored now.
const feedbackAttempts = 5

// What a server says that will not take a message now or ever, as far as the
// client library does not name it.
const (
	codeAccountFull  jetstream.ErrorCode = 10002
	codeServerFull   jetstream.ErrorCode = 10023
	codeStorageFull  jetstream.ErrorCode = 10047
	codeStoreRefused jetstream.ErrorCode = 10077 // with why, in words
)

// put stores msg and returns its sequence, and repeats it when no answer comes.
// Errors wrap feedback.ErrStoreFull or feedback.ErrUnavailable, or are that of
// ctx; that somebody else was first (see wrongSequence) and that msg is too large
// (see exceeds) are errors as they are.
func (f *Feedback) put(ctx context.Context, msg *nats.Msg) (sequence uint64, err error) {
	if err := f.slots.Acquire(ctx, 1); err != nil {
		return 0, unavailable(ctx, err)
	}
	defer f.slots.Release(1)
	final := func(err error) bool { return wrongSequence(err) || exceeds(err) }
	err = f.persist(ctx, final, func(ctx context.Context) error {
		ack, err := f.publish(ctx, msg, jetstream.WithExpectStream(StreamFeedback))
		if err == nil {
			sequence = ack.Sequence
		}
		return err
	})
	return sequence, err
}

// persist attempts store until the server answers. An error that is final is
// returned as it is; others wrap feedback.ErrStoreFull or
// feedback.ErrUnavailable, or are that of ctx.
func (f *Feedback) persist(ctx context.Context, final func(error) bool, store func(context.Context) error) error {
	for attempt := uint64(1); ; attempt++ {
		if err := f.writable(); err != nil {
			return unavailable(ctx, err)
		}
		try, cancel := context.WithTimeout(ctx, feedbackAttempt<<(attempt-1))
		err := store(try)
		cancel()
		switch {
		case err == nil, final(err):
			return err
		case full(err):
			return fmt.Errorf("%w (stream %s: %w); erase feedback, or give the stream more bytes", feedback.ErrStoreFull, StreamFeedback, err)
		case attempt == feedbackAttempts || ctx.Err() != nil:
			return unavailable(ctx, fmt.Errorf("stream %s: %w", StreamFeedback, explain(err)))
		}
		pause(ctx, retryDelay(attempt, feedbackRetryBase, feedbackRetryMax))
	}
}

// writable returns why nothing can be stored now.
func (f *Feedback) writable() error {
	if err := f.healthy(); err != nil {
		return err
	}
	if status := f.nc.Status(); status != nats.CONNECTED {
		return fmt.Errorf("the connection to NATS is %v", status)
	}
	return nil
}

// exceeds tells that a message is larger than the server or the stream takes.
func exceeds(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, nats.ErrMaxPayload) || errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamMessageExceedsMaximum ||
		api.ErrorCode == codeStoreRefused && strings.Contains(api.Description, "too large"))
}

// full tells that a limit of bytes or messages keeps a message out.
func full(err error) bool {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode {
	case codeAccountFull, codeServerFull, codeStorageFull:
		return true
	case codeStoreRefused:
		return strings.HasPrefix(api.Description, "maximum")
	}
	return false
}
