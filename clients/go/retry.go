package assay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Retry says for how long a request that failed is tried again. The waits
// double from First to Most; half of each is jitter, so that clients do not
// come back together. A Retry-After of the service is the least that is waited.
type Retry struct {
	Budget     time.Duration // from the first failure on; 0: never try again
	First      time.Duration // the first wait
	Most       time.Duration // the longest wait
	BadAnswers int           // attempts in all when the answer is an *AnswerError
	Attempts   int           // attempts in all; 0: as many as the budget allows
}

// DefaultRetry is that of a client without WithRetry: five minutes, which is
// longer than a service takes to start anew.
var DefaultRetry = Retry{Budget: 5 * time.Minute, First: 250 * time.Millisecond, Most: 15 * time.Second, BadAnswers: 3}

// wait is the time before the attempt that follows failed attempt number n,
// from 1; false: there is to be none.
func (r Retry) wait(err error, n int, elapsed time.Duration, repeatable bool) (time.Duration, bool) {
	if r.Budget <= 0 || r.Attempts > 0 && n >= r.Attempts || !r.allows(err, n, repeatable) {
		return 0, false
	}
	backoff := r.Most
	if n < 30 && r.First<<(n-1) < r.Most {
		backoff = r.First << (n - 1)
	}
	pause := backoff/2 + rand.N(backoff/2+1) //nolint:gosec // jitter is no secret
	var refused *APIError
	if errors.As(err, &refused) && refused.RetryAfter > 0 {
		pause = max(pause, refused.RetryAfter+rand.N(backoff/2+1)) //nolint:gosec // jitter is no secret
	}
	return pause, elapsed+pause <= r.Budget
}

func (r Retry) allows(err error, n int, repeatable bool) bool {
	var lost *TransportError
	var refused *APIError
	var odd *AnswerError
	switch {
	case errors.As(err, &refused):
		return refused.Is(ErrUnavailable) && (repeatable || refused.undone())
	case errors.As(err, &odd):
		return repeatable && n < r.BadAnswers
	case errors.As(err, &lost):
		return repeatable || !lost.Sent
	}
	return false
}

// attempts makes an attempt, and more while the failures are such as pass. At
// the end of ctx the error is that of ctx and of the last attempt.
func (r Retry) attempts(ctx context.Context, repeatable bool, attempt func() error) error {
	var failed time.Time
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
		pause, again := r.wait(err, n, time.Since(failed), repeatable)
		if !again {
			return err
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= pause {
			return fmt.Errorf("%w: no time is left after attempt %d: %w", context.DeadlineExceeded, n, err)
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
