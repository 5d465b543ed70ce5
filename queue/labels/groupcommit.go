package labels

import (
	"context"
	"errors"
	"slices"
	"sync"

	"assay/queue/internal/js"
	"assay/rewardmodel/feedback"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/semaphore"
)

const (
	// maxBatchBytes limits an atomic batch, since a server of a cluster holds one
	// in memory until it is complete.
	maxBatchBytes = 8 << 20

	// minBatch is the number of records from which an atomic batch takes less time
	// than as many single messages, each with its own fsync: the server stages a
	// batch in separate files, and syncs those too.
	minBatch = 16
)

// write is a record to store, under the conditions in its headers.
type write struct {
	msg      *nats.Msg
	sequence uint64 // where it is stored
	err      error
}

// commit is a set of writes of one request that wait for the disk together.
type commit struct {
	writes []*write
	bytes  int
	firsts []feedback.Hash // ids of which a write is the first record
	done   chan struct{}   // closed when each write has its sequence or error
}

// add adds a write. first reports whether its condition is that its id has no record.
func (c *commit) add(w *write, id feedback.Hash, first bool) {
	c.writes = append(c.writes, w)
	c.bytes += w.msg.Size()
	if first {
		c.firsts = append(c.firsts, id)
	}
}

// fits reports whether both can be parts of one batch.
func (c *commit) fits(messages, bytes int) bool {
	return len(c.writes)+messages <= js.MaxBatch && c.bytes+bytes <= maxBatchBytes
}

// commit stores writes of different subjects, and returns when each has its
// sequence or error. If commit itself fails, none has: its error is that of ctx,
// or wraps feedback.ErrUnavailable.
func (l *Log) commit(ctx context.Context, c *commit) error {
	if l.commits == nil {
		l.storeEach(ctx, c.writes)
		return nil
	}
	if err := l.writable(); err != nil { // or it would wait behind the attempts of others
		return unavailable(ctx, err)
	}
	c.done = make(chan struct{})
	select {
	case l.commits <- c:
	case <-l.closing.Done():
		return unavailable(ctx, errClosed)
	case <-ctx.Done():
		return unavailable(ctx, ctx.Err())
	}
	select {
	case <-c.done:
		return nil
	case <-l.closing.Done(): // here and below, it may still be stored
		return unavailable(ctx, errClosed)
	case <-ctx.Done():
		return unavailable(ctx, ctx.Err())
	}
}

var errClosed = errors.New("the log of labels is closed")

// commitLoop stores what requests commit, until the log is closed. It publishes
// fewer than minBatch records immediately, which is fastest. While minBatch of them
// or a batch are in flight, later records queue up and share the next batch: the
// higher the rate, the more records share an fsync, and no record waits for others
// to arrive.
func (l *Log) commitLoop() {
	var storing sync.WaitGroup
	defer storing.Wait()
	running := semaphore.NewWeighted(minBatch)
	var next *commit
	for {
		if next == nil {
			select {
			case next = <-l.commits:
			case <-l.closing.Done():
				return
			}
		}
		if running.Acquire(l.closing, 1) != nil {
			return
		}
		group, writes, rest := l.gather(next)
		next = rest
		weight := int64(min(len(writes), minBatch))
		if running.Acquire(l.closing, weight-1) != nil {
			return
		}
		storing.Go(func() {
			defer running.Release(weight)
			l.storeBatch(writes)
			for _, c := range group {
				close(c.done)
			}
		})
	}
}

// gather returns first and the waiting commits that fit into one batch with it, the
// writes of all of these, and the commit that no longer fits.
func (l *Log) gather(first *commit) (group []*commit, writes []*write, next *commit) {
	group, writes = []*commit{first}, slices.Clone(first.writes)
	firsts := map[feedback.Hash]bool{}
	for _, id := range first.firsts {
		firsts[id] = true
	}
	for bytes := first.bytes; ; {
		select {
		case c := <-l.commits:
			// The server does not compare the messages of a batch with each other.
			if !c.fits(len(writes), bytes) || slices.ContainsFunc(c.firsts, func(id feedback.Hash) bool { return firsts[id] }) {
				return group, writes, c
			}
			for _, id := range c.firsts {
				firsts[id] = true
			}
			group = append(group, c)
			writes = append(writes, c.writes...)
			bytes += c.bytes
		default:
			return group, writes, nil
		}
	}
}

// storeBatch stores writes as one batch, or a few writes one by one. A server that
// rejects a batch does not report which write is the reason: then each half becomes
// a batch, and so on. Thus one rejected write costs a few more batches, and not an
// fsync for each of the others.
func (l *Log) storeBatch(writes []*write) {
	if len(writes) < minBatch {
		l.storeEach(l.closing, writes)
		return
	}
	msgs := make([]*nats.Msg, len(writes))
	for i, w := range writes {
		msgs[i] = w.msg
	}
	var first uint64
	err := l.persist(l.closing, js.BatchRejected, func(ctx context.Context) (err error) {
		if first, err = l.publishBatch(ctx, msgs); err == nil {
			l.acknowledge(first + uint64(len(msgs)) - 1)
		}
		return err
	})
	switch {
	case js.WrongSequence(err), js.TooLarge(err), js.Full(err): // one of them, or more
		half := len(writes) / 2
		l.storeBatch(writes[:half])
		l.storeBatch(writes[half:])
	case js.BatchRejected(err): // also where an earlier attempt stored all of them: the server recognizes each
		l.storeEach(l.closing, writes)
	default:
		for i, w := range writes {
			w.sequence, w.err = first+uint64(i), err
		}
	}
}

// storeEach stores each write as a separate message.
func (l *Log) storeEach(ctx context.Context, writes []*write) {
	var storing sync.WaitGroup
	for _, w := range writes {
		storing.Go(func() { w.sequence, w.err = l.put(ctx, w.msg) })
	}
	storing.Wait()
}
