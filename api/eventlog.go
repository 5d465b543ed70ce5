package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"assay/rewardmodel/retrain"
)

const (
	// heldEvents and heldBytes bound the events in memory; the oldest go first.
	heldEvents = 10_000
	heldBytes  = 16 << 20
	// eventBatch is how many events a stream takes at a time, so that it looks
	// for the end of its client between them.
	eventBatch = 100
	// sourceBackoff is the pause before a source that failed is asked again: short,
	// since one that is not ready yet says so without asking anybody.
	sourceBackoff = 100 * time.Millisecond
)

// eventLog is what this process knows of the stream of events: one reader of the
// source for all clients, however many there are. It starts with the last
// heldEvents of the source.
type eventLog struct {
	source EventSource // nil without events

	mu        sync.Mutex
	held      []arrival // in the order of the source
	bytes     int
	evicted   uint64 // sequence of the newest event that had to go
	epoch     int    // how often the stream was removed and created again
	caughtUp  bool   // all that was stored at the start of the process is held
	failure   error  // why the source failed the last time; nil once it works again
	contacted time.Time
	moved     chan struct{} // closed and replaced when one of these changes
}

// arrival is an event, or why it cannot be read.
type arrival struct {
	event retrain.Event
	err   error
}

func (a arrival) size() int { return 256 + len(a.event.Reason) + len(a.event.Details) }

// cursor is a place in the log.
type cursor struct {
	epoch    int
	sequence uint64
	begun    bool // something was read from there
}

// errTooSlow ends a stream whose client reads more slowly than events go.
var errTooSlow = fmt.Errorf("%w: the client reads more slowly than events are dropped from memory; connect again with the id of the last event", ErrNotReady)

func newEventLog(source EventSource) *eventLog {
	return &eventLog{source: source, moved: make(chan struct{})}
}

// run follows the source until ctx ends.
func (l *eventLog) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := l.follow(ctx); err != nil && ctx.Err() == nil {
			l.change(func() { l.failure = err })
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
	l.change(func() { l.failure, l.caughtUp = nil, l.caughtUp || last <= after })
	for e, err := range l.source.Events(ctx, after) {
		if err != nil && e.Sequence == 0 {
			return err
		}
		l.add(arrival{e, err}, last)
	}
	return nil
}

// last asks the source for the sequence of its last event. It wakes nobody: only
// follow says that the source works again.
func (l *eventLog) last(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	last, err := l.source.LastEvent(ctx)
	if err != nil && !errors.Is(err, ErrNotReady) {
		err = fmt.Errorf("%w: the events cannot be read: %w", ErrNotReady, err)
	}
	if err == nil {
		l.mu.Lock()
		l.contacted = time.Now()
		l.mu.Unlock()
	}
	return last, err
}

func (l *eventLog) add(a arrival, last uint64) {
	l.change(func() {
		if n := len(l.held); n > 0 && a.event.Sequence <= l.held[n-1].event.Sequence { // another stream under the same name
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
		l.failure, l.contacted = nil, time.Now()
		l.caughtUp = l.caughtUp || a.event.Sequence >= last
	})
}

// change makes a change and wakes all that wait for one.
func (l *eventLog) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.moved)
	l.moved = make(chan struct{})
}

func (l *eventLog) newest() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) == 0 {
		return 0
	}
	return l.held[len(l.held)-1].event.Sequence
}

// await returns when the log holds what the source had at some time after the
// start of the process, and at least the event of a sequence. The error is why
// it does not before ctx ends; a source that fails once may be starting.
func (l *eventLog) await(ctx context.Context, sequence uint64) error {
	for {
		l.mu.Lock()
		moved, there := l.moved, l.caughtUp
		there = there && (sequence == 0 || len(l.held) > 0 && l.held[len(l.held)-1].event.Sequence >= sequence)
		l.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-moved: // also when a source that has failed is asked again
		case <-ctx.Done():
			return cmp.Or(l.unread(), fmt.Errorf("%w: the events are being read", ErrNotReady))
		}
	}
}

// unread is why nothing was read from the source; nil while that may come.
func (l *eventLog) unread() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) > 0 {
		return nil
	}
	return l.failure
}

// known tells whether the log has held all that the source had.
func (l *eventLog) known() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.caughtUp
}

// recent are up to n of the last events, the oldest first.
func (l *eventLog) recent(n int) []arrival {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.held[max(0, len(l.held)-n):])
}

// before is the sequence before the last n events.
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

// after is the place after a sequence, which is 0 for the beginning. One that
// lies beyond the end is of another stream, whose place this one took.
func (l *eventLog) after(sequence uint64) cursor {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.held); n == 0 || sequence > l.held[n-1].event.Sequence {
		sequence = 0
	}
	return cursor{epoch: l.epoch, sequence: sequence}
}

// next moves a cursor over the next events and returns them. Without any, it
// returns a channel that is closed when there may be more, or why there will be
// none.
func (l *eventLog) next(c *cursor) (batch []arrival, moved <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.epoch != l.epoch {
		*c = cursor{epoch: l.epoch}
	}
	if c.begun && c.sequence < l.evicted {
		return nil, nil, errTooSlow
	}
	first, _ := slices.BinarySearchFunc(l.held, c.sequence+1, func(a arrival, sequence uint64) int {
		return cmp.Compare(a.event.Sequence, sequence)
	})
	batch = slices.Clone(l.held[first:min(first+eventBatch, len(l.held))])
	c.begun = true
	if len(batch) == 0 {
		return nil, l.moved, l.failure
	}
	c.sequence = batch[len(batch)-1].event.Sequence
	return batch, nil, nil
}

// age is for how long nothing was heard of the source.
func (l *eventLog) age() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.contacted)
}
