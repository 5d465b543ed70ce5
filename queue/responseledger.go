package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"assay/queue/internal/dedup"
	"assay/queue/internal/js"
)

const (
	// keyLedger is the key of ASSAY_STATE with the ledger of the responses.
	keyLedger = "responses.ledger"

	// maxLedgerGaps limits the completed responses among those that wait, each of which is
	// a gap in what the server and ASSAY_STATE list.
	maxLedgerGaps = 10_000
)

// ledger is what is known of the responses of a stream: up to the sequence Last, each waited
// when it was written, as Waiting lists, or has a result, its own or that of an earlier response
// with the same id. So one that waited, and neither waits nor has a result later, was lost: no
// client can remove a response. It is stored in another stream, since nats-server reports some of
// these losses only until its next start, and others never.
type ledger struct {
	Created time.Time `json:"created"` // of the stream; of another stream it says nothing
	Last    uint64    `json:"last"`
	Waiting []span    `json:"waiting"`
}

// span is a range of sequences, both ends included.
type span struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

// bookkeeper balances the ledger of a process with an embedded server.
type bookkeeper struct {
	js      jetstream.JetStream
	damage  *js.Damage
	state   *js.KeyValue
	results *dedup.Index

	balancing sync.Mutex
	written   ledger // by this process; needs balancing

	mu        sync.Mutex
	completed map[uint64]uint64 // a bit for each response that this process has completed and that may wait in the ledger, 64 by index
}

// keepLedger starts to keep the ledger, if the server is in this process: the servers of a cluster
// have copies of what one of them has lost.
func (w *worker) keepLedger() {
	if w.cfg.server == nil {
		return
	}
	w.books = &bookkeeper{js: w.js, damage: w.cfg.damage, state: w.state, results: w.results, completed: map[uint64]uint64{}}
}

// complete records that a response has its result. A nil bookkeeper does nothing.
func (b *bookkeeper) complete(sequence uint64) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.completed[sequence/64] |= 1 << (sequence % 64)
}

// completeAgain records that a response has the result of an earlier one, and writes the ledger. It
// is called before the response is acknowledged, since nothing else would show it afterward. A
// nil bookkeeper does nothing.
func (b *bookkeeper) completeAgain(ctx context.Context, sequence uint64) error {
	if b == nil {
		return nil
	}
	b.complete(sequence)
	b.balancing.Lock()
	defer b.balancing.Unlock()
	if sequence <= b.written.Last && !contains(b.written.Waiting, sequence) {
		return nil // with another one
	}
	return b.balanceNow(ctx)
}

// balance reports the responses that neither wait nor have a result, and writes the ledger. A
// nil bookkeeper does nothing.
func (b *bookkeeper) balance(ctx context.Context) error {
	if b == nil {
		return nil
	}
	b.balancing.Lock()
	defer b.balancing.Unlock()
	return b.balanceNow(ctx)
}

func (b *bookkeeper) balanceNow(ctx context.Context) error {
	last, revision, err := js.Load[ledger](ctx, b.state, keyLedger)
	if errors.Is(err, js.ErrDamaged) { // reported; an operator deletes it
		return nil
	}
	if err != nil {
		return err
	}
	next, err := b.current(ctx)
	if err != nil {
		return err
	}
	if last.Created.Equal(next.Created) {
		lost, err := b.lost(ctx, last, next)
		if err != nil {
			return err
		}
		b.damage.ReportMissing(StreamResponses, lost)
	}
	b.forget(next, next.Last < last.Last)
	next.Waiting = b.incomplete(next.Waiting)
	b.written = next
	if last.Created.Equal(next.Created) && last.Last == next.Last && slices.Equal(last.Waiting, next.Waiting) {
		return nil
	}
	if _, err = js.Store(ctx, b.state, keyLedger, next, revision); err != nil {
		b.written = ledger{}
	}
	if errors.Is(err, js.ErrChanged) {
		return nil // another process has written it
	}
	return err
}

// incomplete returns what waits and is not completed: the server has not removed it yet.
func (b *bookkeeper) incomplete(waiting []span) []span {
	b.mu.Lock()
	defer b.mu.Unlock()
	for index, bits := range b.completed {
		for bit := range uint64(64) {
			if bits&(1<<bit) != 0 {
				waiting = remove(waiting, 64*index+bit)
			}
		}
	}
	return waiting
}

// remove removes a sequence from spans, which are in order.
func remove(spans []span, sequence uint64) []span {
	i, found := find(spans, sequence)
	if !found {
		return spans
	}
	var rest []span
	if s := spans[i]; s.First < sequence {
		rest = append(rest, span{s.First, sequence - 1})
	}
	if s := spans[i]; sequence < s.Last {
		rest = append(rest, span{sequence + 1, s.Last})
	}
	return slices.Replace(spans, i, i+1, rest...)
}

// current returns the ledger of what waits now.
func (b *bookkeeper) current(ctx context.Context) (l ledger, err error) {
	ask, cancel := context.WithTimeout(ctx, js.RequestTimeout)
	defer cancel()
	stream, err := b.js.Stream(ask, StreamResponses)
	if err != nil {
		return l, fmt.Errorf("stream %s: %w", StreamResponses, js.Explain(err))
	}
	info := stream.CachedInfo()
	if info.State.NumDeleted > maxLedgerGaps {
		return l, fmt.Errorf("stream %s: %d responses were completed behind one that waits", StreamResponses, info.State.NumDeleted)
	}
	if info, err = stream.Info(ask, jetstream.WithDeletedDetails(true)); err != nil {
		return l, fmt.Errorf("stream %s: %w", StreamResponses, js.Explain(err))
	}
	state := info.State
	l = ledger{Created: info.Created, Last: state.LastSeq}
	if state.Msgs == 0 {
		return l, nil
	}
	from := state.FirstSeq
	slices.Sort(state.Deleted)
	for _, gone := range append(state.Deleted, state.LastSeq+1) {
		if from < gone {
			l.Waiting = append(l.Waiting, span{from, gone - 1})
		}
		from = max(from, gone+1)
	}
	return l, nil
}

// lost returns the responses of the last ledger, and those since, that do not wait now and
// have no result.
func (b *bookkeeper) lost(ctx context.Context, last, now ledger) ([]uint64, error) {
	gone := map[uint64]bool{}
	b.mu.Lock()
	for _, s := range append(slices.Clone(last.Waiting), span{last.Last + 1, now.Last}) {
		for sequence := s.First; sequence <= s.Last; sequence++ {
			if b.completed[sequence/64]&(1<<(sequence%64)) == 0 && !contains(now.Waiting, sequence) {
				gone[sequence] = true
			}
		}
	}
	b.mu.Unlock()
	if len(gone) == 0 {
		return nil, nil
	}
	// Another process completed those, or the last one of this directory.
	after := b.results.Marks().Before(slices.Min(slices.Collect(maps.Keys(gone))))
	for _, name := range []string{StreamRewards, StreamDead} {
		if err := b.remove(ctx, gone, name, after, now.Created); err != nil {
			return nil, fmt.Errorf("reading the results in %s: %w", name, js.Explain(err))
		}
	}
	return slices.Sorted(maps.Keys(gone)), nil
}

// remove removes the responses that have a result in a stream, which is behind after.
func (b *bookkeeper) remove(ctx context.Context, gone map[uint64]bool, name string, after map[string]uint64, created time.Time) error {
	ask, cancel := context.WithTimeout(ctx, js.RequestTimeout)
	defer cancel()
	stream, err := b.js.Stream(ask, name)
	if err != nil {
		return err
	}
	end := stream.CachedInfo().State.LastSeq
	for msg, err := range js.Scan(ctx, stream, js.Range{Subject: ">", First: after[name] + 1, Last: end, HeadersOnly: true}) {
		if err != nil {
			return err
		}
		if after == nil && msg.Time.Before(created) {
			continue // of an earlier stream, whose sequences started at 1 as well
		}
		if sequence, err := strconv.ParseUint(msg.Header.Get(HeaderSequence), 10, 64); err == nil {
			delete(gone, sequence)
		}
	}
	return nil
}

// forget forgets what was completed and does not wait; all, if the stream has lost its end, and
// uses sequences again.
func (b *bookkeeper) forget(now ledger, all bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if all {
		clear(b.completed)
	}
	for index, bits := range b.completed {
		for bit := range uint64(64) {
			if sequence := 64*index + bit; bits&(1<<bit) != 0 && sequence <= now.Last && !contains(now.Waiting, sequence) {
				bits &^= 1 << bit
			}
		}
		if b.completed[index] = bits; bits == 0 {
			delete(b.completed, index)
		}
	}
}

// contains reports whether a sequence is in one of the spans, which are in order.
func contains(spans []span, sequence uint64) bool {
	_, found := find(spans, sequence)
	return found
}

// find returns which of the spans, which are in order, has a sequence.
func find(spans []span, sequence uint64) (int, bool) {
	return slices.BinarySearchFunc(spans, sequence, func(s span, sequence uint64) int {
		switch {
		case s.Last < sequence:
			return -1
		case s.First > sequence:
			return 1
		}
		return 0
	})
}
