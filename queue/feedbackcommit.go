package queue

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/semaphore"
)

const (
	// commitBytes limits an atomic batch, since a server of a cluster holds
	// one in memory until it is complete.
	commitBytes = 8 << 20

	// commitLeast is the number of records from which an atomic batch takes
	// less time than as many single messages, each with its own fsync: the
	// server stages a batch in files of its own, and syncs those too.
	commitLeast = 16
)

// write is a record to store, under the conditions in its headers.
type write struct {
	msg      *nats.Msg
	sequence uint64 // where it is stored
	err      error
}

// commit is a set of writes of one request, which wait for the disk together.
type commit struct {
	writes []*write
	bytes  int
	done   chan struct{} // closed when each write has its sequence or error
}

// fits reports whether both can be parts of one batch.
func (c *commit) fits(messages, bytes int) bool {
	return len(c.writes)+messages <= atomicMessages && c.bytes+bytes <= commitBytes
}

// commit stores writes of subjects that differ, and returns when each has its
// sequence or error. Its own error says that they have none: it is that of ctx,
// or wraps feedback.ErrUnavailable.
func (f *Feedback) commit(ctx context.Context, c *commit) error {
	if f.commits == nil {
		f.storeEach(ctx, c.writes)
		return nil
	}
	if err := f.writable(); err != nil { // others may wait for their attempts to end
		return unavailable(ctx, err)
	}
	c.done = make(chan struct{})
	select {
	case f.commits <- c:
	case <-f.closing.Done():
		return unavailable(ctx, errClosed)
	case <-ctx.Done():
		return unavailable(ctx, ctx.Err())
	}
	select {
	case <-c.done:
		return nil
	case <-f.closing.Done(): // it may still be stored, here and below
		return unavailable(ctx, errClosed)
	case <-ctx.Done():
		return unavailable(ctx, ctx.Err())
	}
}

var errClosed = errors.New("the feedback log is closed")

// commitAll stores what requests commit, until the log is closed. A few records
// are published immediately, as that is the fastest for a few. While commitLeast
// of them or a batch are on their way, more gather, and share the next batch: so
// the more labels arrive, the more of them share an fsync, and none waits for
// others to arrive.
func (f *Feedback) commitAll() {
	var storing sync.WaitGroup
	defer storing.Wait()
	running := semaphore.NewWeighted(commitLeast)
	var next *commit
	for {
		if next == nil {
			select {
			case next = <-f.commits:
			case <-f.closing.Done():
				return
			}
		}
		if running.Acquire(f.closing, 1) != nil {
			return
		}
		group, writes, rest := f.gather(next)
		next = rest
		weight := int64(min(len(writes), commitLeast))
		if running.Acquire(f.closing, weight-1) != nil {
			return
		}
		storing.Go(func() {
			defer running.Release(weight)
			f.storeBatch(writes)
			for _, c := range group {
				close(c.done)
			}
		})
	}
}

// gather returns first and what else waits and fits into one batch with it, the
// writes of all of these, and the one that no longer fits.
func (f *Feedback) gather(first *commit) (group []*commit, writes []*write, next *commit) {
	group, writes = []*commit{first}, slices.Clone(first.writes)
	for bytes := first.bytes; ; {
		select {
		case c := <-f.commits:
			if !c.fits(len(writes), bytes) {
				return group, writes, c
			}
			group = append(group, c)
			writes = append(writes, c.writes...)
			bytes += c.bytes
		default:
			return group, writes, nil
		}
	}
}

// storeBatch stores writes as one batch, or a few of them one by one. A server
// that refuses a batch does not say for which write: then each half is a batch,
// and so on. Thus one refused write costs a few batches more, and not an fsync
// for each of the others.
func (f *Feedback) storeBatch(writes []*write) {
	if len(writes) < commitLeast {
		f.storeEach(f.closing, writes)
		return
	}
	msgs := make([]*nats.Msg, len(writes))
	for i, w := range writes {
		msgs[i] = w.msg
	}
	var first uint64
	err := f.persist(f.closing, refusedBatch, func(ctx context.Context) (err error) {
		first, err = f.publishBatch(ctx, msgs)
		return err
	})
	switch {
	case wrongSequence(err), exceeds(err), full(err): // one of them, or more
		half := len(writes) / 2
		f.storeBatch(writes[:half])
		f.storeBatch(writes[half:])
	case refusedBatch(err): // also where an earlier attempt stored all of them: the server recognizes each
		f.storeEach(f.closing, writes)
	default:
		for i, w := range writes {
			w.sequence, w.err = first+uint64(i), err
		}
	}
}

// storeEach stores writes by a message each.
func (f *Feedback) storeEach(ctx context.Context, writes []*write) {
	var storing sync.WaitGroup
	for _, w := range writes {
		storing.Go(func() { w.sequence, w.err = f.put(ctx, w.msg) })
	}
	storing.Wait()
}
