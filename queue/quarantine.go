package queue

import (
	"context"
	"fmt"
	"net/http"
)

// quarantine protects against responses of one stream that kill processes.
type quarantine struct {
	suspects *suspects
	journal  *crashJournal // nil without one
}

// quarantineOf returns the quarantine of the stream of a source. It is a new one
// at the start, and when the stream was created again: its sequences name other
// responses then.
func (w *worker) quarantineOf(ctx context.Context, src source) (*quarantine, error) {
	w.mu.Lock()
	last := w.quarantine
	w.mu.Unlock()
	if last != nil && last.suspects.created == src.created.UnixNano() {
		return last, nil
	}
	next, err := w.openQuarantine(ctx, src, last == nil)
	if err != nil {
		return nil, err
	}
	err = w.closeJournal() // of the stream that is gone
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quarantine = next
	return next, err
}

// openQuarantine begins a journal for the stream of a source. At the start of
// the process it first tells the other replicas what the last process of the
// journal died with. A disk that cannot hold a journal is no reason not to work.
func (w *worker) openQuarantine(ctx context.Context, src source, starting bool) (*quarantine, error) {
	stream, err := w.js.Stream(ctx, streamState)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", streamState, explain(err))
	}
	shared := newState(w.nc, w.js, stream, w.cfg.domain, w.log)
	q := &quarantine{suspects: &suspects{state: shared, created: src.created.UnixNano()}}
	var left crashed
	if starting && w.cfg.Journal != "" {
		if left, err = readJournal(w.cfg.Journal); err != nil {
			w.log.Error().Err(err).Msg("cannot read what the last process died with")
		}
	}
	if len(left.sequences) > 0 {
		w.log.Warn().Int("responses", len(left.sequences)).Msg("the last process died with streamed responses in flight")
	}
	if err := q.suspects.record(ctx, left, src.first); err != nil || w.cfg.Journal == "" {
		return q, err
	}
	if q.journal, err = newJournal(w.cfg.Journal, w.id, src.created, w.cfg.MaxInFlight); err != nil {
		w.log.Error().Err(err).Msg("a response that kills this process will not be recognized")
	}
	return q, nil
}

// freezeJournal keeps what is in flight recorded, see crashJournal.freeze.
func (w *worker) freezeJournal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quarantine.journal.freeze()
}

// closeJournal closes the journal, if there is one.
func (w *worker) closeJournal() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.quarantine == nil {
		return nil
	}
	return w.quarantine.journal.close()
}

// deliver handles one delivery with regard to what its response did before. A
// response that was in flight when processes died is handled alone, and given up
// when that kills a process, too.
func (w *worker) deliver(ctx context.Context, d *delivery) outcome {
	s, err := d.quarantine.suspects.of(ctx, d)
	if err != nil {
		return w.unstored(d, err)
	}
	d.deaths = s.Deaths
	switch {
	case s.fatal():
		return w.condemn(ctx, d)
	case s.isolated():
		return w.handleAlone(ctx, d)
	default:
		slot := d.quarantine.journal.begin(d.meta.Sequence.Stream)
		defer slot.end()
		return w.handle(ctx, d)
	}
}

// forget removes a settled response from the suspects. It holds nothing that
// other responses could use.
func (w *worker) forget(ctx context.Context, d *delivery) {
	sequence := d.meta.Sequence.Stream
	if err := d.quarantine.suspects.forget(ctx, sequence); err != nil {
		w.log.Debug().Err(err).Uint64("sequence", sequence).Msg("settled responses stay among the suspects")
	}
}

// handleAlone handles a suspect while no other one is handled in this process,
// and in batches of its own.
func (w *worker) handleAlone(ctx context.Context, d *delivery) outcome {
	select {
	case w.alone <- struct{}{}:
		defer func() { <-w.alone }()
	case <-ctx.Done():
		return w.fail(ctx, d, ctx.Err())
	}
	sequence := d.meta.Sequence.Stream
	held, err := d.quarantine.suspects.hold(ctx, sequence, w.id.String(), d.meta.NumDelivered)
	switch {
	case err != nil:
		return w.unstored(d, err)
	case !held: // another process works on it, or has died of it and will say so when it is back
		w.handBack(d, w.cfg.RetryMax)
		return outcomeHeld
	}
	w.log.Warn().Str("subject", d.msg.Subject()).Uint64("sequence", sequence).Int("deaths", d.deaths).
		Msg("a response that was in flight when processes died is scored alone")
	slot := d.quarantine.journal.begin(sequence)
	d.alone = slot.computing
	o := w.handle(ctx, d)
	slot.end()
	if o.settled() {
		return o // and is forgotten
	}
	ask, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	if err := d.quarantine.suspects.release(ask, sequence, w.id.String()); err != nil {
		w.log.Warn().Err(err).Uint64("sequence", sequence).Msg("a response stays reserved for this process")
	}
	return o
}

// condemn gives up a response that kills processes, unless it has its reward: a
// process may have died between storing that and acknowledging the response.
func (w *worker) condemn(ctx context.Context, d *delivery) outcome {
	settled, err := w.ledger.seen(ctx, d.key, d.meta.Timestamp, true)
	if err != nil {
		return w.unstored(d, err)
	}
	if settled {
		w.acknowledge(d)
		return outcomeDuplicate
	}
	return w.bury(ctx, d, ReasonCrash, &Error{Code: http.StatusInternalServerError, Name: nameInternal,
		Message: fmt.Sprintf("processes died %d times with it in flight, the last time while it was scored alone", d.deaths)})
}
