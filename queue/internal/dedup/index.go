// Package dedup is the deduplication index of results: which responses have their
// reward or dead letter already.
package dedup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"assay/queue/internal/js"
)

// Index knows which responses were completed before, for the case that the duplicate
// window of a stream does not cover: a response that is delivered again when its
// result is older than the window. That happens when a process or a server dies and
// stays down for long, since a server may forget the last acknowledgements, and even
// the deliveries, before a crash.
//
// It reads the headers of the results that are younger than the oldest waiting
// response: none, unless a response waited for long. A damaged result is reported, and is
// none.
type Index struct {
	js      jetstream.JetStream
	damage  *js.Damage
	streams []string // of results

	mu        sync.Mutex
	completed map[string]result // by key
	cursor    map[string]uint64 // last sequence read, by stream
	since     time.Time         // results from this time up to the cursors were read; zero: none
}

// result is where a result is stored, and since when.
type result struct {
	stream   string
	sequence uint64
	stored   time.Time
}

// New returns an empty index of the results in streams. The Nats-Msg-Id of a result is
// the key of its response. damage gets the damaged results.
func New(jet jetstream.JetStream, damage *js.Damage, streams ...string) *Index {
	return &Index{js: jet, damage: damage, streams: streams, completed: map[string]result{}, cursor: map[string]uint64{}}
}

// Rebuild clears the index and reads the results since the given time, which is when
// the oldest incomplete response was stored.
func (x *Index) Rebuild(ctx context.Context, since time.Time) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.rebuild(ctx, since)
}

func (x *Index) rebuild(ctx context.Context, since time.Time) error {
	x.clear()
	if err := x.readAll(ctx, since); err != nil {
		return err
	}
	x.since = since
	return nil
}

// Seen reports whether a response with this key that was stored at the given time has
// a result. The time distinguishes a response from an earlier one with the same id.
// With update, it reads the results that were stored since the last read first.
func (x *Index) Seen(ctx context.Context, key string, stored time.Time, update bool) (bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if update {
		read := x.readAll
		if x.since.IsZero() || stored.Before(x.since) {
			read = x.rebuild
		}
		if err := read(ctx, stored); err != nil {
			return false, err
		}
	}
	found, ok := x.completed[key]
	if !ok || found.stored.Before(stored) {
		return false, nil
	}
	// The index has read its headers only.
	switch err := x.Verify(ctx, found.stream, found.sequence); {
	case errors.Is(err, js.ErrDamaged):
		delete(x.completed, key)
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}

// Verify returns an error that wraps js.ErrDamaged if a result is not as it was stored, and
// reports it. A result that is gone, by its age or an erasure, is no error.
func (x *Index) Verify(ctx context.Context, name string, sequence uint64) error {
	ctx, cancel := context.WithTimeout(ctx, js.RequestTimeout)
	defer cancel()
	stream, err := x.js.Stream(ctx, name)
	if err != nil {
		return err
	}
	msg, err := stream.GetMsg(ctx, sequence)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err = js.Verify(msg.Subject, msg.Header, msg.Data); err != nil {
		x.damage.Report(js.DamagedRecord{Stream: name, Subject: msg.Subject, Sequence: sequence})
	}
	return err
}

// Clear empties the index, once no response is left to look up. If a server that takes
// over from a dead one delivers a response again, the index is read again.
func (x *Index) Clear() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.clear()
}

func (x *Index) clear() {
	clear(x.completed)
	clear(x.cursor)
	x.since = time.Time{}
}

func (x *Index) readAll(ctx context.Context, since time.Time) error {
	for _, stream := range x.streams {
		if err := x.read(ctx, stream, since); err != nil {
			return fmt.Errorf("reading the results in %s: %w", stream, err)
		}
	}
	return nil
}

// read reads a stream from the cursor on, or from since without a cursor, up to the
// last message that its leader has.
func (x *Index) read(ctx context.Context, name string, since time.Time) error {
	stream, err := x.js.Stream(ctx, name)
	if err != nil {
		return err
	}
	state := stream.CachedInfo().State
	from := x.cursor[name] + 1
	if state.LastSeq < from {
		return nil
	}
	if from == 1 {
		if from, err = firstSince(ctx, stream, state, since); err != nil {
			return err
		}
	}
	for msg, err := range js.Scan(ctx, stream, js.Range{Subject: ">", First: from, Last: state.LastSeq, HeadersOnly: true}) {
		if err != nil {
			return err
		}
		if _, err := js.VerifyHeader(msg.Subject, msg.Header); err != nil {
			x.damage.Report(js.DamagedRecord{Stream: name, Subject: msg.Subject, Sequence: msg.Sequence})
			continue
		}
		if key := msg.Header.Get(jetstream.MsgIDHeader); key != "" {
			x.completed[key] = result{name, msg.Sequence, msg.Time}
		}
	}
	x.cursor[name] = state.LastSeq
	return nil
}

// firstSince returns the sequence of the first message of a stream that was stored at
// a time or after it, or one beyond the last.
func firstSince(ctx context.Context, stream jetstream.Stream, state jetstream.StreamState, since time.Time) (uint64, error) {
	low, high := max(state.FirstSeq, 1), state.LastSeq+1
	if state.Msgs == 0 || state.LastTime.Before(since) {
		return high, nil
	}
	for low < high {
		middle := low + (high-low)/2
		msg, err := js.FirstFrom(ctx, stream, ">", middle)
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
