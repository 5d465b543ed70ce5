package cli

import (
	"context"
	"time"
)

// Wait waits for d, at least 50 ms, or until ctx ends, whose error it then returns.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(max(d, 50*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
