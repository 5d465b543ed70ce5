package retrain

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrLeaseLost reports that another replica has taken over the training run, or
// may have, because this one failed to renew its lease in time.
var ErrLeaseLost = errors.New("the lease to train was lost")

// errCanceled reports that an operator has stopped the training run.
var errCanceled = errors.New("the training run was canceled")

// lease is the exclusive permission to train. Its holder renews it by storing the
// status again with every heartbeat. Another replica takes over when it has seen no
// new revision for ttl by its own clock, so that clocks need not be in sync; the
// holder stops before that.
type lease struct {
	store     Statuses
	metrics   *Metrics
	heartbeat time.Duration
	ttl       time.Duration
	now       func() time.Time

	mu      sync.Mutex
	status  Status
	renewed time.Time
	lost    error
	ending  bool // a canceled training run has stopped, and its end may be stored
}

// hold renews the lease, whose status was just stored, until ctx ends, the lease is
// lost or the training run is canceled; then it calls lose.
func (l *lease) hold(ctx context.Context, lose context.CancelCauseFunc) {
	tick := time.NewTicker(l.heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		try, cancel := context.WithTimeout(ctx, l.ttl/3)
		err := l.update(try, func(*Status) {})
		cancel()
		if errors.Is(err, ErrLeaseLost) || errors.Is(err, errCanceled) {
			lose(err)
			return
		}
	}
}

// update changes the status and stores it. The error wraps ErrLeaseLost when
// another replica owns the status, and errCanceled when an operator has stopped the
// training run: then the change is dropped. Any other error is retryable until the
// lease expires.
func (l *lease) update(ctx context.Context, change func(*Status)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return l.lost
	}
	if l.status.Canceled != nil && !l.ending {
		return errCanceled
	}
	change(&l.status)
	for {
		next := l.status
		next.Updated = l.now()
		stored, err := l.store.SetStatus(ctx, next)
		switch {
		case err == nil:
			l.status, l.renewed = stored, l.now()
			l.metrics.phase(stored.Phase)
			return nil
		case errors.Is(err, ErrChanged):
			if err := l.merge(ctx); errors.Is(err, errCanceled) {
				return err
			} else if err != nil {
				return l.expired(err)
			}
		default:
			return l.expired(fmt.Errorf("renewing the lease to train: %w", err))
		}
	}
}

// end lets update store the end of a canceled training run, which has stopped.
func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending = true
}

// merge adopts what others may write into the status of this replica: a request
// for a training run, and a cancellation.
func (l *lease) merge(ctx context.Context) error {
	theirs, err := l.store.Status(ctx)
	if err != nil {
		return fmt.Errorf("renewing the lease to train: %w", err)
	}
	if theirs.ID != l.status.ID || theirs.Owner != l.status.Owner || theirs.Attempt != l.status.Attempt {
		l.lost = fmt.Errorf("%w: replica %s owns training run %s now", ErrLeaseLost, theirs.Owner, theirs.ID)
		return l.lost
	}
	if theirs.Canceled != nil && !l.ending {
		l.status = theirs
		return errCanceled
	}
	l.status.Requested, l.status.Revision = theirs.Requested, theirs.Revision
	return nil
}

// expired returns ErrLeaseLost instead of err when the lease was not renewed for
// too long.
func (l *lease) expired(err error) error {
	if l.lost == nil && l.now().Sub(l.renewed) > l.ttl*2/3 {
		l.lost = fmt.Errorf("%w: %w", ErrLeaseLost, err)
	}
	if l.lost != nil {
		return l.lost
	}
	return err
}

// current returns the status as last stored or changed.
func (l *lease) current() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// staleness tracks when the status of another replica last changed.
type staleness struct {
	revision uint64
	since    time.Time
}

// check reports whether s has not changed for ttl.
func (g *staleness) check(s Status, now time.Time, ttl time.Duration) bool {
	if g.revision != s.Revision {
		g.revision, g.since = s.Revision, now
	}
	return now.Sub(g.since) >= ttl
}
