package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ledgerIdle is when the server removes the consumer of a reading that ended.
const ledgerIdle = 30 * time.Second

// ledgerCheck is after how long without a message the server is asked whether
// there is still one to wait for.
const ledgerCheck = 500 * time.Millisecond

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
	since   time.Time            // what was stored from here up to the cursors was read; zero: nothing was
}

func newLedger(js jetstream.JetStream) *ledger {
	return &ledger{js: js, settled: map[string]time.Time{}, cursor: map[string]uint64{}}
}

// rebuild forgets all and reads what was stored since the given time, which is
// when the oldest unsettled response was stored.
func (l *ledger) rebuild(ctx context.Context, since time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begin(ctx, since)
}

func (l *ledger) begin(ctx context.Context, since time.Time) error {
	l.clear()
	if err := l.readAll(ctx, since); err != nil {
		return err
	}
	l.since = since
	return nil
}

// seen reports whether a response with this key that was stored at the given
// time was settled after. The time tells a response apart from an earlier one
// with the same id. With fresh, what was stored since the last reading is read
// first.
func (l *ledger) seen(ctx context.Context, key string, stored time.Time, fresh bool) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if fresh {
		read := l.readAll
		if l.since.IsZero() || stored.Before(l.since) {
			read = l.begin
		}
		if err := read(ctx, stored); err != nil {
			return false, err
		}
	}
	settled, ok := l.settled[key]
	return ok && !settled.Before(stored), nil
}

// forget drops what the ledger holds, once no response is left that it could be
// asked about. Should a server that takes over from a dead one deliver a
// response again all the same, it is read anew.
func (l *ledger) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
}

func (l *ledger) clear() {
	clear(l.settled)
	clear(l.cursor)
	l.since = time.Time{}
}

func (l *ledger) readAll(ctx context.Context, since time.Time) error {
	for _, stream := range []string{StreamRewards, StreamDead} {
		if err := l.read(ctx, stream, since); err != nil {
			return fmt.Errorf("reading what is settled from %s: %w", stream, err)
		}
	}
	return nil
}

// read reads a stream from the cursor on, or from since when it has none, up to
// the last message that its leader knows.
func (l *ledger) read(ctx context.Context, stream string, since time.Time) error {
	s, err := l.js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	state := s.CachedInfo().State
	from := l.cursor[stream] + 1
	if state.LastSeq < from {
		return nil
	}
	if from == 1 {
		if from, err = firstSince(ctx, s, state, since); err != nil {
			return err
		}
	}
	for from <= state.LastSeq {
		read, err := l.consume(ctx, s, from, state.LastSeq)
		if err != nil {
			return err
		}
		if from = max(from, read+1); from > state.LastSeq {
			break
		}
		// A consumer may lie on a server that is behind the leader, and counts
		// less than is left when messages are removed while it reads. So its
		// word for the end is not taken.
		msg, err := firstFrom(ctx, s, ">", from)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		if err != nil {
			return err
		}
		l.settle(msg.Header, msg.Time)
		from = msg.Sequence + 1
	}
	l.cursor[stream] = state.LastSeq
	return nil
}

// firstSince is the sequence of the first message of a stream that was stored
// at a time or after it, or one beyond the last.
func firstSince(ctx context.Context, s jetstream.Stream, state jetstream.StreamState, since time.Time) (uint64, error) {
	low, high := max(state.FirstSeq, 1), state.LastSeq+1
	if state.Msgs == 0 || state.LastTime.Before(since) {
		return high, nil
	}
	for low < high {
		middle := low + (high-low)/2
		msg, err := firstFrom(ctx, s, ">", middle)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && !msg.Time.Before(since):
			high = middle
		case err != nil:
			return 0, err
		default:
			low = msg.Sequence + 1
		}
	}
	return low, nil
}

// firstFrom is the first message of a stream from a sequence on, as its leader
// knows it (any of its servers, where the stream allows direct reads), or
// jetstream.ErrMsgNotFound.
func firstFrom(ctx context.Context, s jetstream.Stream, subject string, from uint64) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return s.GetMsg(ctx, max(from, 1), jetstream.WithGetMsgSubject(subject))
}

func (l *ledger) settle(header nats.Header, stored time.Time) {
	if key := header.Get(jetstream.MsgIDHeader); key != "" {
		l.settled[key] = stored
	}
}

// consume reads from a sequence on, up to the sequence last or until the server
// has no more, and returns the last sequence that it read, 0 for none.
func (l *ledger) consume(ctx context.Context, s jetstream.Stream, from, last uint64) (read uint64, err error) {
	consumer, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		HeadersOnly: true, InactiveThreshold: ledgerIdle, MaxResetAttempts: resetAttempts,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
	})
	if err != nil {
		return 0, err
	}
	info, err := consumer.Info(ctx)
	if err != nil || info.NumPending == 0 {
		return 0, err
	}
	iter, err := consumer.Messages(jetstream.PullMaxMessages(1000))
	if err != nil {
		return 0, err
	}
	defer iter.Stop()
	for {
		msg, err := next(ctx, consumer, iter)
		if msg == nil || err != nil {
			return read, err
		}
		meta, err := msg.Metadata()
		if err != nil {
			return read, err
		}
		l.settle(msg.Headers(), meta.Timestamp)
		read = meta.Sequence.Stream
		if meta.NumPending == 0 || read >= last {
			return read, nil
		}
	}
}

// next returns the next message, or nil when the server has none left although
// an earlier one announced it: what is erased meanwhile is never delivered.
func next(ctx context.Context, consumer jetstream.Consumer, iter jetstream.MessagesContext) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for {
		wait, stop := context.WithTimeout(ctx, ledgerCheck)
		msg, err := iter.Next(jetstream.NextContext(wait))
		stop()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return msg, err
		}
		info, err := consumer.Info(ctx)
		if err != nil || info.NumPending == 0 {
			return nil, err
		}
	}
}
