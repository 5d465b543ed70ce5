package js

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// RequestTimeout bounds one request to the JetStream API.
const RequestTimeout = 10 * time.Second

// attemptTimeout bounds one attempt of Retry: a server that died does not reply.
const attemptTimeout = 5 * time.Second

// standard is the backoff of Retry and of readers that reconnect.
func standard() Backoff { return Backoff{Base: 50 * time.Millisecond, Max: 2 * time.Second} }

// Backoff is an exponential backoff. It has no state: the number of failures may
// come from a server that counts deliveries.
type Backoff struct{ Base, Max time.Duration }

// Delay returns how long to wait after the nth failure in a row, n from 1: the
// delay doubles from Base up to Max, less up to a quarter, at random, so that many
// clients do not return at the same moment.
func (b Backoff) Delay(n uint64) time.Duration {
	delay := b.Max
	if n--; n < 32 && b.Base<<n < b.Max {
		delay = b.Base << n
	}
	return delay - time.Duration(rand.Int64N(int64(delay)/4+1))
}

// Sleep returns after d, or when ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Retry runs op until it succeeds, fails with an error that is not Retryable, or
// ctx ends. A stream of a cluster has no leader for some seconds after a server
// died, and a server that restarts does not reply. op must be idempotent, since an
// attempt that failed may have had its effect.
func Retry(ctx context.Context, op func(context.Context) error) error {
	return RetryWhile(ctx, Retryable, func() error { return attempt(ctx, op) })
}

// RetryWhile runs op, which bounds its own attempts, until it returns no error or
// one for which again is false, or ctx ends.
func RetryWhile(ctx context.Context, again func(error) bool, op func() error) error {
	for failures := uint64(1); ; failures++ {
		err := op()
		if err == nil || !again(err) {
			return err
		}
		if Sleep(ctx, standard().Delay(failures)); ctx.Err() != nil {
			return fmt.Errorf("%w (last attempt: %w)", context.Cause(ctx), err)
		}
	}
}

func attempt(ctx context.Context, op func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return op(ctx)
}
