package queue

import (
	"context"
	"fmt"
	"net/http"
)

// openJournal tells the other replicas what the last process of this journal died
// with, and begins a new one. A disk that cannot hold it is no reason not to
// work.
func (w *worker) openJournal(ctx context.Context, src source) error {
	stream, err := w.js.Stream(ctx, streamState)
	if err != nil {
		return fmt.Errorf("stream %s: %w", streamState, explain(err))
	}
	shared := newState(w.nc, w.js, stream, w.cfg.domain, w.log)
	w.suspects = &suspects{state: shared, created: src.created.UnixNano()}
	left, err := w.cfg.leftInFlight()
	if err != nil {
		w.log.Error().Err(err).Msg("cannot read what the last process died with")
	}
	if len(left.sequences) > 0 {
		w.log.Warn().Int("responses", len(left.sequences)).Msg("the last process died with streamed responses in flight")
	}
	if err := w.suspects.record(ctx, left, src.first); err != nil || w.cfg.Journal == "" {
		return err
	}
	if w.journal, err = newJournal(w.cfg.Journal, w.id, src.created, w.cfg.MaxInFlight); err != nil {
		w.log.Error().Err(err).Msg("a response that kills this process will not be recognized")
	}
	return nil
}

func (c WorkerConfig) leftInFlight() (crashed, error) {
	if c.Journal == "" {
		return crashed{}, nil
	}
	return readJournal(c.Journal)
}

// deliver handles one delivery with regard to what its response did before. A
// response that was in flight when processes died is handled alone, and given up
// when that kills a process, too.
func (w *worker) deliver(ctx context.Context, d *delivery) (o outcome) {
	sequence := d.meta.Sequence.Stream
	s, err := w.suspects.of(ctx, d)
	if err != nil {
		return w.unstored(d, err)
	}
	d.deaths = s.Deaths
	switch {
	case s.fatal():
		o = w.condemn(ctx, d)
	case s.isolated():
		o = w.handleAlone(ctx, d)
	default:
		slot := w.journal.begin(sequence)
		defer slot.end()
		o = w.handle(ctx, d)
	}
	if s.Deaths > 0 && o.settled() {
		if err := w.suspects.forget(ctx, sequence); err != nil {
			w.log.Debug().Err(err).Uint64("sequence", sequence).Msg("a settled response stays among the suspects")
		}
	}
	return o
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
	held, err := w.suspects.hold(ctx, sequence, w.id.String(), d.meta.NumDelivered)
	switch {
	case err != nil:
		return w.unstored(d, err)
	case !held: // another process works on it, or has died of it and will say so when it is back
		w.handBack(d, w.cfg.RetryMax)
		return outcomeHeld
	}
	w.log.Warn().Str("subject", d.msg.Subject()).Uint64("sequence", sequence).Int("deaths", d.deaths).
		Msg("a response that was in flight when processes died is scored alone")
	slot := w.journal.begin(sequence)
	d.alone = slot.computing
	o := w.handle(ctx, d)
	slot.end()
	if o.settled() {
		return o // and is forgotten
	}
	ask, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	if err := w.suspects.release(ask, sequence, w.id.String()); err != nil {
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
