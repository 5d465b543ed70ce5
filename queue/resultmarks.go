package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"assay/queue/internal/dedup"
	"assay/queue/internal/js"
	"assay/queue/registry"
)

const (
	// keyMarks is the key of ASSAY_STATE with the marks of the results.
	keyMarks = "responses.marks"

	// booksInterval is how often a process adds a mark and balances the ledger. It also does so
	// when it stops.
	booksInterval = time.Minute

	// booksTimeout bounds that when a process stops.
	booksTimeout = 2 * time.Second
)

// openState opens the values that processes share. It does so once, since a value that is
// damaged later is restored from what this process has read or written before.
func (w *worker) openState(ctx context.Context) error {
	if w.state != nil {
		return nil
	}
	stream, err := w.js.Stream(ctx, registry.StreamState)
	if err != nil {
		return fmt.Errorf("stream %s: %w", registry.StreamState, js.Explain(err))
	}
	w.state = js.NewKeyValue(w.nc, w.js, stream, w.cfg.domain, w.cfg.damage, w.log)
	return nil
}

// mark adds a mark of where the results are now to those that the processes share.
func (w *worker) mark(ctx context.Context) error {
	// Before the streams: a mark that another process adds in the meantime would be ahead of what
	// was read of them, as if they had lost their ends, and Add would drop all marks.
	marks, revision, err := js.Load[dedup.Marks](ctx, w.state, keyMarks)
	damaged := errors.Is(err, js.ErrDamaged) // which is reported; an operator deletes it
	if err != nil && !damaged {
		return err
	}
	results, err := w.ends(ctx) // before the responses, so that what is stored later is behind both
	if err != nil {
		return err
	}
	info, err := w.responsesInfo(ctx)
	if err != nil {
		return fmt.Errorf("stream %s: %w", StreamResponses, js.Explain(err))
	}
	if damaged || !marks.Created.Equal(info.Created) {
		marks = dedup.Marks{Created: info.Created}
	}
	added := marks.Add(dedup.Mark{Response: info.State.LastSeq, Results: results})
	w.results.SetMarks(marks)
	if damaged || !added {
		return nil
	}
	if _, err := js.Store(ctx, w.state, keyMarks, marks, revision); err != nil && !errors.Is(err, js.ErrChanged) {
		w.log.Debug().Err(err).Msg("cannot store where the results of the next responses begin")
	}
	return nil
}

// ends returns the last sequences of the streams of results.
func (w *worker) ends(ctx context.Context) (map[string]uint64, error) {
	ends := map[string]uint64{}
	for _, name := range []string{StreamRewards, StreamDead} {
		stream, err := w.js.Stream(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", name, js.Explain(err))
		}
		ends[name] = stream.CachedInfo().State.LastSeq
	}
	return ends, nil
}

// watchBooks keeps the books until the worker ends. Attaching has just added a mark.
func (w *worker) watchBooks() {
	tick := time.NewTicker(booksInterval)
	defer tick.Stop()
	for keep := w.books.balance; ; keep = w.keepBooks {
		if err := keep(w.working); err != nil && w.working.Err() == nil {
			w.log.Debug().Err(err).Msg("cannot compare the streamed responses with their results")
		}
		select {
		case <-tick.C:
		case <-w.working.Done():
			return
		}
	}
}

// closeBooks keeps the books when nothing is in flight, unless the server is away.
func (w *worker) closeBooks() {
	if w.nc.Status() != nats.CONNECTED {
		return
	}
	ctx, cancel := context.WithTimeout(w.working, booksTimeout)
	defer cancel()
	if err := w.keepBooks(ctx); err != nil {
		w.log.Debug().Err(err).Msg("cannot write the books of the streamed responses")
	}
}

// keepBooks adds a mark and balances the ledger.
func (w *worker) keepBooks(ctx context.Context) error {
	return errors.Join(w.mark(ctx), w.books.balance(ctx))
}
