// Package eventlog holds the most recent events of a source in memory, for any number of clients.
package eventlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
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
	// batchSize is how many events Next returns at most: in between, a stream checks
	// whether its client left.
	batchSize = 100
	// sourceBackoff is the delay before a failed source is read again. It is short,
	// since a source that is not ready yet fails without any request.
	sourceBackoff = 100 * time.Millisecond
)

// Source is a stream of events.
type Source interface {
	// Events yields every event after a sequence, the stored ones first and then
	// each as it happens, until ctx ends or the consumer stops. With an error, an
	// event with a sequence cannot be read; without a sequence, the source failed,
	// which ends the iteration.
	Events(ctx context.Context, after uint64) iter.Seq2[retrain.Event, error]
	// LastEvent returns the sequence of the last stored event, 0 if there is none.
	LastEvent(ctx context.Context) (uint64, error)
}

// Log holds the most recent events: one reader of the source for any number of
// clients. It starts with the last heldEvents of the source.
type Log struct {
	source  Source
	timeout time.Duration // of a read of the last event

	mu        sync.Mutex
	held      []Entry // in the order of the source
	bytes     int
	evicted   uint64 // sequence of the newest evicted event
	epoch     int    // how often the stream was deleted and recreated
	caughtUp  bool   // everything that was stored when the process started was read
	err       error  // why the source failed last; nil once it works again
	contacted time.Time
	changed   chan struct{} // closed and replaced when one of these changes
}

// Entry is an event, or why it cannot be read.
type Entry struct {
	Event retrain.Event
	Err   error
}

func (e Entry) size() int { return 256 + len(e.Event.Reason) + len(e.Event.Details) }

// Cursor is a position in the log.
type Cursor struct {
	epoch    int
	sequence uint64
	begun    bool // something was read from it
}

// errTooSlow ends a stream whose client reads more slowly than events are evicted.
var errTooSlow = fmt.Errorf("%w: the client reads more slowly than events are evicted from memory; reconnect with the id of the last event", rewardmodel.ErrNotReady)

// New returns a log without events; Run fills it. The source has timeout to report its last event. It may be nil: the log
// remains empty.
func New(source Source, timeout time.Duration) *Log {
	return &Log{source: source, timeout: timeout, changed: make(chan struct{})}
}

// HasSource reports whether there is something to follow.
func (l *Log) HasSource() bool { return l.source != nil }

// Run follows the source until ctx ends.
func (l *Log) Run(ctx context.Context) {
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
func (l *Log) follow(ctx context.Context) error {
	last, err := l.Last(ctx)
	if err != nil {
		return err
	}
	after := l.Newest()
	if last > heldEvents {
		after = max(after, last-heldEvents)
	}
	l.change(func() { l.err, l.caughtUp = nil, l.caughtUp || last <= after })
	for e, err := range l.source.Events(ctx, after) {
		if err != nil && e.Sequence == 0 {
			return err
		}
		l.add(Entry{e, err}, last)
	}
	return nil
}

// Last reads the sequence of the last event of the source. It wakes no client: only
// follow reports that the source works again.
func (l *Log) Last(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
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

func (l *Log) add(e Entry, last uint64) {
	l.change(func() {
		if n := len(l.held); n > 0 && e.Event.Sequence <= l.held[n-1].Event.Sequence { // a new stream under the same name
			l.held, l.bytes, l.evicted = nil, 0, 0
			l.epoch++
		}
		l.held = append(l.held, e)
		l.bytes += e.size()
		for len(l.held) > heldEvents || l.bytes > heldBytes && len(l.held) > 1 {
			l.bytes -= l.held[0].size()
			l.evicted = l.held[0].Event.Sequence
			l.held = slices.Delete(l.held, 0, 1)
		}
		l.err, l.contacted = nil, time.Now()
		l.caughtUp = l.caughtUp || e.Event.Sequence >= last
	})
}

// change makes a change and wakes all waiting clients.
func (l *Log) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.changed)
	l.changed = make(chan struct{})
}

// Newest returns the sequence of the newest event, 0 if there is none.
func (l *Log) Newest() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) == 0 {
		return 0
	}
	return l.held[len(l.held)-1].Event.Sequence
}

// Await returns once the log holds what the source had at some time after the start
// of the process, up to at least the event of a sequence. The error is why that did
// not happen before ctx ended; a source that fails once may be starting.
func (l *Log) Await(ctx context.Context, sequence uint64) error {
	for {
		l.mu.Lock()
		changed, there := l.changed, l.caughtUp
		there = there && (sequence == 0 || len(l.held) > 0 && l.held[len(l.held)-1].Event.Sequence >= sequence)
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
func (l *Log) unread() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) > 0 {
		return nil
	}
	return l.err
}

// CaughtUp reports whether the log has held everything that the source had.
func (l *Log) CaughtUp() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.caughtUp
}

// Changes returns a channel that is closed at the next change.
func (l *Log) Changes() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Recent returns up to n of the last events, the oldest first.
func (l *Log) Recent(n int) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.held[max(0, len(l.held)-n):])
}

// Before returns the sequence before the last n events.
func (l *Log) Before(n int) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch held := len(l.held); {
	case held == 0:
		return 0
	case n == 0:
		return l.held[held-1].Event.Sequence
	default:
		return l.held[max(0, held-n)].Event.Sequence - 1
	}
}

// After returns the position after a sequence, 0 for the beginning. A sequence beyond
// the end belongs to an earlier stream of the same name.
func (l *Log) After(sequence uint64) Cursor {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.held); n == 0 || sequence > l.held[n-1].Event.Sequence {
		sequence = 0
	}
	return Cursor{epoch: l.epoch, sequence: sequence}
}

// Next advances a cursor over the next events and returns them. If there are none, it
// returns a channel that is closed when there may be more, or why there will be
// none.
func (l *Log) Next(c *Cursor) (batch []Entry, changed <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.epoch != l.epoch {
		*c = Cursor{epoch: l.epoch}
	}
	if c.begun && c.sequence < l.evicted {
		return nil, nil, errTooSlow
	}
	first, _ := slices.BinarySearchFunc(l.held, c.sequence+1, func(e Entry, sequence uint64) int {
		return cmp.Compare(e.Event.Sequence, sequence)
	})
	batch = slices.Clone(l.held[first:min(first+batchSize, len(l.held))])
	c.begun = true
	if len(batch) == 0 {
		return nil, l.changed, l.err
	}
	c.sequence = batch[len(batch)-1].Event.Sequence
	return batch, nil, nil
}

// Age returns the time since the source last responded.
func (l *Log) Age() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.contacted)
}
