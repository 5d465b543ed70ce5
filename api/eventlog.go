package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"assay/rewardmodel"
	"assay/rewardmodel/retrain"
)

const (
	// heldEvents and heldBytes bound the events in memory; the oldest are evicted
	// first.
	heldEvents = 10_000
	heldBytes  = 16 << 20
	// eventBatch is how many events a stream sends at a time: in between it checks
	// whether its client left.
	eventBatch = 100
	// sourceBackoff is the delay before a failed source is read again. It is short,
	// since a source that is not ready yet fails without any request.
	sourceBackoff = 100 * time.Millisecond
)

// eventLog holds the most recent events: one reader of the source for any number of
// clients. It starts with the last heldEvents of the source.
type eventLog struct {
	source EventSource // nil without events

	mu        sync.Mutex
	held      []entry // in the order of the source
	bytes     int
	evicted   uint64 // sequence of the newest evicted event
	epoch     int    // how often the stream was deleted and recreated
	caughtUp  bool   // everything that was stored when the process started was read
	err       error  // why the source failed last; nil once it works again
	contacted time.Time
	changed   chan struct{} // closed and replaced when one of these changes
}

// entry is an event, or why it cannot be read.
type entry struct {
	event retrain.Event
	err   error
}

func (a entry) size() int { return 256 + len(a.event.Reason) + len(a.event.Details) }

// cursor is a position in the log.
type cursor struct {
	epoch    int
	sequence uint64
	begun    bool // something was read from it
}

// errTooSlow ends a stream whose client reads more slowly than events are evicted.
var errTooSlow = fmt.Errorf("%w: the client reads more slowly than events are dropped from memory; connect again with the id of the last event", rewardmodel.ErrNotReady)

func newEventLog(source EventSource) *eventLog {
	return &eventLog{source: source, changed: make(chan struct{})}
}

// run follows the source until ctx ends.
func (l *eventLog) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := l.follow(ctx); err != nil && ctx.Err() == nil {
			l.change(func() { l.err = err })
		}
		select {
		case <-ctx.Done():
		case <-time.After(sourceBackoff):
		}
	}
}

// follow reads the source until it ends.
func (l *eventLog) follow(ctx context.Context) error {
	last, err := l.last(ctx)
	if err != nil {
		return err
	}
	after := l.newest()
	if last > heldEvents {
		after = max(after, last-heldEvents)
	}
	l.change(func() { l.err, l.caughtUp = nil, l.caughtUp || last <= after })
	for e, err := range l.source.Events(ctx, after) {
		if err != nil && e.Sequence == 0 {
			return err
		}
		l.add(entry{e, err}, last)
	}
	return nil
}

// last reads the sequence of the last event of the source. It wakes no client: only
// follow reports that the source works again.
func (l *eventLog) last(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	last, err := l.source.LastEvent(ctx)
	if err != nil && !errors.Is(err, rewardmodel.ErrNotReady) {
		err = fmt.Errorf("%w: the events cannot be read: %w", rewardmodel.ErrNotReady, err)
	}
	if err == nil {
		l.mu.Lock()
		l.contacted = time.Now()
		l.mu.Unlock()
	}
	return last, err
}

func (l *eventLog) add(a entry, last uint64) {
	l.change(func() {
		if n := len(l.held); n > 0 && a.event.Sequence <= l.held[n-1].event.Sequence { // a new stream under the same name
			l.held, l.bytes, l.evicted = nil, 0, 0
			l.epoch++
		}
		l.held = append(l.held, a)
		l.bytes += a.size()
		for len(l.held) > heldEvents || l.bytes > heldBytes && len(l.held) > 1 {
			l.bytes -= l.held[0].size()
			l.evicted = l.held[0].event.Sequence
			l.held = slices.Delete(l.held, 0, 1)
		}
		l.err, l.contacted = nil, time.Now()
		l.caughtUp = l.caughtUp || a.event.Sequence >= last
	})
}

// change makes a change and wakes all waiting clients.
func (l *eventLog) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *eventLog) newest() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) == 0 {
		return 0
	}
	return l.held[len(l.held)-1].event.Sequence
}

// await returns once the log holds what the source had at some time after the start
// of the process, up to at least the event of a sequence. The error is why that did
// not happen before ctx ended; a source that fails once may be starting.
func (l *eventLog) await(ctx context.Context, sequence uint64) error {
	for {
		l.mu.Lock()
		changed, there := l.changed, l.caughtUp
		there = there && (sequence == 0 || len(l.held) > 0 && l.held[len(l.held)-1].event.Sequence >= sequence)
		l.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-changed: // also when a failed source is read again
		case <-ctx.Done():
			return cmp.Or(l.unread(), fmt.Errorf("%w: the events are being read", rewardmodel.ErrNotReady))
		}
	}
}

// unread returns why nothing was read from the source, nil while that may happen.
func (l *eventLog) unread() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) > 0 {
		return nil
	}
	return l.err
}

// known reports whether the log has held everything that the source had.
func (l *eventLog) known() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.caughtUp
}

// changes returns a channel that is closed at the next change.
func (l *eventLog) changes() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// recent returns up to n of the last events, the oldest first.
func (l *eventLog) recent(n int) []entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.held[max(0, len(l.held)-n):])
}

// before returns the sequence before the last n events.
func (l *eventLog) before(n int) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch held := len(l.held); {
	case held == 0:
		return 0
	case n == 0:
		return l.held[held-1].event.Sequence
	default:
		return l.held[max(0, held-n)].event.Sequence - 1
	}
}

// after returns the position after a sequence, 0 for the beginning. A sequence beyond
// the end belongs to an earlier stream of the same name.
func (l *eventLog) after(sequence uint64) cursor {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.held); n == 0 || sequence > l.held[n-1].event.Sequence {
		sequence = 0
	}
	return cursor{epoch: l.epoch, sequence: sequence}
}

// next advances a cursor over the next events and returns them. If there are none, it
// returns a channel that is closed when there may be more, or why there will be
// none.
func (l *eventLog) next(c *cursor) (batch []entry, changed <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.epoch != l.epoch {
		*c = cursor{epoch: l.epoch}
	}
	if c.begun && c.sequence < l.evicted {
		return nil, nil, errTooSlow
	}
	first, _ := slices.BinarySearchFunc(l.held, c.sequence+1, func(a entry, sequence uint64) int {
		return cmp.Compare(a.event.Sequence, sequence)
	})
	batch = slices.Clone(l.held[first:min(first+eventBatch, len(l.held))])
	c.begun = true
	if len(batch) == 0 {
		return nil, l.changed, l.err
	}
	c.sequence = batch[len(batch)-1].event.Sequence
	return batch, nil, nil
}

// age returns the time since the source last responded.
func (l *eventLog) age() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.contacted)
}
