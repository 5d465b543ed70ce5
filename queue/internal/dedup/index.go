// Package dedup is the deduplication index of results: which responses have their
// reward or dead letter already.
package dedup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"assay/queue/internal/js"
)

// Index knows which responses were completed before, for the cases that the duplicate
// window of a stream does not cover: a response that is delivered again when its
// result is older than the window, or the clock of the server has jumped. That happens when
// a process or a server dies, since a server may forget the last acknowledgements, and even
// the deliveries, before a crash.
//
// It reads the headers of the results that may belong to the oldest waiting response or a
// later one, by the marks: none, unless a response waits. A damaged result is reported, and
// is none.
type Index struct {
	js      jetstream.JetStream
	damage  *js.Damage
	streams []string // of results

	mu        sync.Mutex
	marks     Marks
	completed map[Response]result
	cursor    map[string]uint64 // last sequence read, by stream
	from      uint64            // results of this response and later ones were read, up to the cursors; 0: none
	read      time.Time         // when that began last
}

// Response identifies a response. An id alone does not: a client may publish it again, as a
// new response. Neither does a sequence, which a stream that was created again, or has lost
// its end, uses again.
type Response struct {
	Key      string // the Nats-Msg-Id of its result
	Sequence uint64 // in the stream of responses
}

// result is where a result is stored.
type result struct {
	stream   string
	sequence uint64
}

// New returns an empty index of the results in streams. The Nats-Msg-Id of a result is
// the key of its response, and Assay-Sequence its sequence. damage gets the damaged results.
func New(jet jetstream.JetStream, damage *js.Damage, streams ...string) *Index {
	return &Index{js: jet, damage: damage, streams: streams, completed: map[Response]result{}, cursor: map[string]uint64{}}
}

// SetMarks sets the marks.
func (x *Index) SetMarks(m Marks) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.marks = m
}

// Marks returns the marks.
func (x *Index) Marks() Marks {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.marks
}

// Rebuild clears the index and reads the results of the oldest incomplete response and of
// later ones.
func (x *Index) Rebuild(ctx context.Context, oldest uint64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.rebuild(ctx, oldest)
}

func (x *Index) rebuild(ctx context.Context, oldest uint64) error {
	x.clear()
	if err := x.readAll(ctx, oldest); err != nil {
		return err
	}
	x.from = oldest
	return nil
}

// Seen reports whether a response has a result. It knows all results that were stored before
// the given time, by the clock of this process, and reads them if it does not; zero: it reads
// none.
func (x *Index) Seen(ctx context.Context, r Response, before time.Time) (bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !before.IsZero() {
		var err error
		if x.from == 0 || r.Sequence < x.from {
			err = x.rebuild(ctx, r.Sequence)
		} else if x.read.Before(before) {
			err = x.readAll(ctx, x.from)
		}
		if err != nil {
			return false, err
		}
	}
	found, ok := x.completed[r]
	if !ok {
		return false, nil
	}
	// The index has read its headers only.
	switch err := x.Verify(ctx, found.stream, found.sequence); {
	case errors.Is(err, js.ErrDamaged):
		delete(x.completed, r)
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
	x.from = 0
}

// Forget forgets the results of responses before the oldest one that waits.
func (x *Index) Forget(oldest uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.from == 0 || x.from >= oldest {
		return
	}
	maps.DeleteFunc(x.completed, func(r Response, _ result) bool { return r.Sequence < oldest })
	x.from = oldest
}

// readAll reads the results from the cursors on, or those of the oldest response and later
// ones without a cursor.
func (x *Index) readAll(ctx context.Context, oldest uint64) error {
	began := time.Now()
	after := x.marks.Before(oldest)
	for _, stream := range x.streams {
		if err := x.readStream(ctx, stream, oldest, after); err != nil {
			return fmt.Errorf("reading the results in %s: %w", stream, err)
		}
	}
	x.read = began
	return nil
}

// readStream reads a stream of results up to the last message that its leader has. It keeps those
// of the oldest response and later ones: none before is looked up until the index is rebuilt.
func (x *Index) readStream(ctx context.Context, name string, oldest uint64, after map[string]uint64) error {
	stream, err := x.js.Stream(ctx, name)
	if err != nil {
		return err
	}
	last := stream.CachedInfo().State.LastSeq
	if last < x.cursor[name] || last < after[name] { // it was created again, or has lost its end
		delete(x.cursor, name)
		after = nil
	}
	first := max(x.cursor[name], after[name]) + 1
	for msg, err := range js.Scan(ctx, stream, js.Range{Subject: ">", First: first, Last: last, HeadersOnly: true}) {
		if err != nil {
			return err
		}
		if _, err := js.VerifyHeader(msg.Subject, msg.Header); err != nil {
			x.damage.Report(js.DamagedRecord{Stream: name, Subject: msg.Subject, Sequence: msg.Sequence})
			continue
		}
		sequence, err := strconv.ParseUint(msg.Header.Get(js.HeaderSequence), 10, 64)
		if err != nil || sequence < oldest || after == nil && msg.Time.Before(x.marks.Created) {
			continue // assay has not written it, or it is of an earlier response or stream of responses
		}
		x.completed[Response{msg.Header.Get(jetstream.MsgIDHeader), sequence}] = result{name, msg.Sequence}
	}
	x.cursor[name] = last
	return nil
}
