package retrain

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrLeaseLost says that another replica has taken the training over, or that
// this one could not keep its lease fresh for so long that another may have.
var ErrLeaseLost = errors.New("the lease to train was lost")

// lease is the right to train, held by writing the status anew again and again.
// Another replica takes over when it has seen no new revision for ttl of its own
// clock, so no clocks are compared; the holder gives up a while before that.
type lease struct {
	store Statuses
	beat  time.Duration
	ttl   time.Duration
	now   func() time.Time

	mu      sync.Mutex
	status  Status
	renewed time.Time
	lost    error
}

// hold keeps the lease whose status s was just written, until ctx ends or the
// lease is lost, upon which lose is called.
func (l *lease) hold(ctx context.Context, lose context.CancelCauseFunc) {
	tick := time.NewTicker(l.beat)
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
		if errors.Is(err, ErrLeaseLost) {
			lose(err)
			return
		}
	}
}

// update changes the status and stores it. The error wraps ErrLeaseLost when
// the status is another's by now; any other is worth another try until the
// lease runs out.
func (l *lease) update(ctx context.Context, change func(*Status)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return l.lost
	}
	change(&l.status)
	for {
		next := l.status
		next.Updated = l.now()
		stored, err := l.store.SetStatus(ctx, next)
		switch {
		case err == nil:
			l.status, l.renewed = stored, l.now()
			return nil
		case errors.Is(err, ErrChanged):
			if err := l.merge(ctx); err != nil {
				return l.expired(err)
			}
		default:
			return l.expired(fmt.Errorf("renewing the lease to train: %w", err))
		}
	}
}

// merge takes over what others may write into our status: that somebody asks
// for a training.
func (l *lease) merge(ctx context.Context) error {
	theirs, err := l.store.Status(ctx)
	if err != nil {
		return fmt.Errorf("renewing the lease to train: %w", err)
	}
	if theirs.ID != l.status.ID || theirs.Owner != l.status.Owner || theirs.Attempt != l.status.Attempt {
		l.lost = fmt.Errorf("%w: %s trains as %s now", ErrLeaseLost, theirs.Owner, theirs.ID)
		return l.lost
	}
	l.status.Asked, l.status.Revision = theirs.Asked, theirs.Revision
	return nil
}

// expired turns err into the loss of the lease when it was not renewed for
// long.
func (l *lease) expired(err error) error {
	if l.lost == nil && l.now().Sub(l.renewed) > l.ttl*2/3 {
		l.lost = fmt.Errorf("%w: %w", ErrLeaseLost, err)
	}
	if l.lost != nil {
		return l.lost
	}
	return err
}

// current is the status as last stored, or changed and not stored yet.
func (l *lease) current() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// sighting remembers when a foreign status was last seen to change.
type sighting struct {
	revision uint64
	since    time.Time
}

// stale reports whether s has not changed for ttl.
func (g *sighting) stale(s Status, now time.Time, ttl time.Duration) bool {
	if g.revision != s.Revision {
		g.revision, g.since = s.Revision, now
	}
	return now.Sub(g.since) >= ttl
}
