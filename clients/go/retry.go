package assay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Retry is the retry policy: exponential backoff from InitialBackoff to
// MaxBackoff, of which half is jitter. A Retry-After header is a lower bound.
type Retry struct {
	Budget              time.Duration // how long to retry after the first failure; 0 disables retries
	InitialBackoff      time.Duration
	MaxBackoff          time.Duration
	MaxInvalidResponses int // fail at this many attempts that end in an *InvalidResponseError
	MaxAttempts         int // attempts in total; 0: limited by Budget only
}

// DefaultRetry is the policy of a client without WithRetry. Its budget of five
// minutes exceeds the time that a service takes to restart.
var DefaultRetry = Retry{Budget: 5 * time.Minute, InitialBackoff: 250 * time.Millisecond, MaxBackoff: 15 * time.Second, MaxInvalidResponses: 3}

// wait returns the backoff after failed attempt number n (from 1), and whether to
// make another attempt. So many of the n ended in an invalid response.
func (r Retry) wait(err error, n, invalid int, elapsed time.Duration, idempotent bool) (time.Duration, bool) {
	if r.Budget <= 0 || r.MaxAttempts > 0 && n >= r.MaxAttempts || !r.isRetryable(err, invalid, idempotent) {
		return 0, false
	}
	backoff := r.MaxBackoff
	if n < 30 && r.InitialBackoff<<(n-1) < r.MaxBackoff {
		backoff = r.InitialBackoff << (n - 1)
	}
	pause := backoff/2 + rand.N(backoff/2+1) //nolint:gosec // jitter needs no cryptographic randomness
	var apiErr *APIError
	if errors.As(err, &apiErr) && apiErr.RetryAfter > 0 {
		pause = max(pause, apiErr.RetryAfter+rand.N(backoff/2+1)) //nolint:gosec // jitter needs no cryptographic randomness
	}
	return pause, elapsed+pause <= r.Budget
}

func (r Retry) isRetryable(err error, invalid int, idempotent bool) bool {
	var transportErr *TransportError
	var apiErr *APIError
	switch {
	case errors.As(err, &apiErr):
		return apiErr.Is(ErrUnavailable) && (idempotent || apiErr.notProcessed())
	case isInvalidResponse(err):
		return idempotent && invalid < r.MaxInvalidResponses
	case errors.As(err, &transportErr):
		return idempotent || !transportErr.Sent
	}
	return false
}

func isInvalidResponse(err error) bool {
	var invalid *InvalidResponseError
	return errors.As(err, &invalid)
}

// attempts calls attempt until it succeeds or fails permanently. If ctx ends, the
// error wraps its cause and that of the last attempt.
func (r Retry) attempts(ctx context.Context, idempotent bool, attempt func() error) error {
	var failed time.Time
	invalid := 0
	for n := 1; ; n++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := attempt()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ended(ctx, n, err)
		}
		if n == 1 {
			failed = time.Now()
		}
		if isInvalidResponse(err) {
			invalid++
		}
		pause, again := r.wait(err, n, invalid, time.Since(failed), idempotent)
		if !again {
			return err
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= pause {
			return fmt.Errorf("%w: no time left after attempt %d: %w", context.DeadlineExceeded, n, err)
		}
		if sleep(ctx, pause) != nil {
			return ended(ctx, n, err)
		}
	}
}

func ended(ctx context.Context, n int, err error) error {
	cause := context.Cause(ctx)
	if errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w during or after attempt %d: %w", cause, n, err)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
