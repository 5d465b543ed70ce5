package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ledgerIdle is when the server removes the consumer of a reading that ended.
const ledgerIdle = 30 * time.Second

// ledger knows which responses were settled before, for the cases that the
// duplicate window of a stream cannot see: a response that is delivered again
// when its reward is older than the window. That happens when a process or a
// server dies and stays down for long, since a server may forget the last
// acknowledgements, and even the deliveries, before a crash.
//
// It reads the headers of the rewards and dead letters that are younger than
// the oldest response that waits: none, unless something waited for long.
type ledger struct {
	js jetstream.JetStream

	mu      sync.Mutex
	settled map[string]time.Time // when what has this key was stored
	cursor  map[string]uint64    // last sequence read, by stream
}

func newLedger(js jetstream.JetStream) *ledger {
	return &ledger{js: js, settled: map[string]time.Time{}, cursor: map[string]uint64{}}
}

// rebuild forgets all and reads what was stored since the given time, which is
// when the oldest unsettled response was stored.
func (l *ledger) rebuild(ctx context.Context, since time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.settled)
	clear(l.cursor)
	return l.readAll(ctx, since)
}

// seen reports whether a response with this key that was stored at the given
// time was settled after. The time tells a response apart from an earlier one
// with the same id. With fresh, what was stored since the last reading is read
// first.
func (l *ledger) seen(ctx context.Context, key string, stored time.Time, fresh bool) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if fresh {
		if err := l.readAll(ctx, stored); err != nil {
			return false, err
		}
	}
	settled, ok := l.settled[key]
	return ok && !settled.Before(stored), nil
}

// forget drops what the ledger holds, once no response is left that it could be
// asked about.
func (l *ledger) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.settled)
}

func (l *ledger) readAll(ctx context.Context, since time.Time) error {
	for _, stream := range []string{StreamRewards, StreamDead} {
		if err := l.read(ctx, stream, since); err != nil {
			return fmt.Errorf("reading what is settled from %s: %w", stream, err)
		}
	}
	return nil
}

// read reads a stream from the cursor on, or from since when it has none.
func (l *ledger) read(ctx context.Context, stream string, since time.Time) error {
	s, err := l.js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	state := s.CachedInfo().State
	last := l.cursor[stream]
	if state.LastSeq <= last {
		return nil
	}
	cfg := jetstream.OrderedConsumerConfig{HeadersOnly: true, InactiveThreshold: ledgerIdle, MaxResetAttempts: resetAttempts,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: last + 1}
	if last == 0 {
		if state.Msgs == 0 || state.LastTime.Before(since) {
			l.cursor[stream] = state.LastSeq
			return nil
		}
		cfg.DeliverPolicy, cfg.OptStartSeq, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, 0, &since
	}
	if err := l.consume(ctx, s, cfg, state.LastSeq); err != nil {
		return err
	}
	l.cursor[stream] = state.LastSeq
	return nil
}

// consume reads all that cfg selects, up to the sequence last.
func (l *ledger) consume(ctx context.Context, s jetstream.Stream, cfg jetstream.OrderedConsumerConfig, last uint64) error {
	consumer, err := s.OrderedConsumer(ctx, cfg)
	if err != nil {
		return err
	}
	info, err := consumer.Info(ctx)
	if err != nil {
		return err
	}
	if info.NumPending == 0 {
		return nil
	}
	iter, err := consumer.Messages(jetstream.PullMaxMessages(1000))
	if err != nil {
		return err
	}
	defer iter.Stop()
	for {
		msg, err := next(ctx, iter)
		if err != nil {
			return err
		}
		meta, err := msg.Metadata()
		if err != nil {
			return err
		}
		if key := msg.Headers().Get(jetstream.MsgIDHeader); key != "" {
			l.settled[key] = meta.Timestamp
		}
		if meta.NumPending == 0 || meta.Sequence.Stream >= last {
			return nil
		}
	}
}

func next(ctx context.Context, iter jetstream.MessagesContext) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return iter.Next(jetstream.NextContext(ctx))
}
