package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	attemptTimeout = 5 * time.Second // of one attempt: a server that died does not answer
	retryFirst     = 50 * time.Millisecond
	retryLast      = 2 * time.Second
)

// retry does op again until it succeeds, fails for good, or ctx ends. A stream
// of a cluster has no leader for some seconds after a server died, and a server
// that restarts does not answer. op must be one that may be done twice, since
// an attempt that failed may have had its effect.
func retry(ctx context.Context, op func(context.Context) error) error {
	return repeat(ctx, passing, func() error { return attempt(ctx, op) })
}

// repeat is retry, while an error is as it says, of what bounds its attempts
// itself.
func repeat(ctx context.Context, again func(error) bool, op func() error) error {
	for pause := retryFirst; ; pause = min(2*pause, retryLast) {
		err := op()
		if err == nil || !again(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last attempt: %w)", context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

func attempt(ctx context.Context, op func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return op(ctx)
}

// The numbers of JetStream's errors that go away by themselves: no leader yet,
// or the same message is in flight already.
var passingCodes = map[jetstream.ErrorCode]bool{
	10006: true, // cluster not active
	10008: true, // temporarily unavailable
	10009: true, // not the leader
	10118: true, // stream offline
	10119: true, // consumer offline
	10158: true, // a message with this id is being stored
	10163: true, // the last sequence of the subject is not known yet
}

// passing tells whether err may go away by itself within seconds.
func passing(err error) bool {
	if electing(err) {
		return true
	}
	for _, known := range []error{
		nats.ErrNoResponders, jetstream.ErrNoStreamResponse,
		nats.ErrDisconnected, nats.ErrConnectionReconnecting, nats.ErrReconnectBufExceeded, nats.ErrStaleConnection,
		jetstream.ErrAsyncPublishTimeout,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// electing tells whether the servers cannot do it yet: they answer so, or not
// in time. A server without JetStream is another matter: nobody is there to
// answer.
func electing(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return passingCodes[api.ErrorCode]
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
}
