package queue

import (
	"context"
	"fmt"
	"time"

	"assay/internal/errorcode"
	"assay/queue/internal/js"
	"assay/queue/internal/poison"
)

// quarantine protects against poison messages: responses of one stream that kill
// processes.
type quarantine struct {
	suspects *poison.Suspects
	journal  *poison.Journal // nil without one
}

// quarantineOf returns the quarantine of the stream of a source. It is a new one at the
// start, and when the stream was created again, since its sequences are of other
// responses then.
func (w *worker) quarantineOf(ctx context.Context, src source) (*quarantine, error) {
	w.mu.Lock()
	last := w.quarantine
	w.mu.Unlock()
	if last != nil && last.suspects.Covers(src.created) {
		return last, nil
	}
	next, err := w.openQuarantine(ctx, src, last == nil)
	if err != nil {
		return nil, err
	}
	err = w.closeJournal() // of the previous stream
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quarantine = next
	return next, err
}

// openQuarantine starts a journal for the stream of a source. At the start of the process
// it first adds to the shared list what the last process of the journal died with. The
// worker also runs if the disk cannot store a journal.
func (w *worker) openQuarantine(ctx context.Context, src source, starting bool) (*quarantine, error) {
	q := &quarantine{suspects: poison.NewSuspects(w.state, src.created)}
	var left poison.Crash
	if starting && w.cfg.Journal != "" {
		var err error
		if left, err = poison.ReadJournal(w.cfg.Journal); err != nil {
			w.log.Error().Err(err).Msg("cannot read the crash journal of the last process")
		}
	}
	if len(left.Sequences) > 0 {
		w.log.Warn().Int("responses", len(left.Sequences)).Msg("the last process died with streamed responses in flight")
	}
	if err := q.suspects.Record(ctx, left, src.first); err != nil || w.cfg.Journal == "" {
		return q, err
	}
	var err error
	if q.journal, err = poison.NewJournal(w.cfg.Journal, w.id, src.created, w.cfg.MaxInFlight); err != nil {
		w.log.Error().Err(err).Msg("cannot write the crash journal; a response that kills this process will not be recognized")
	}
	return q, nil
}

// markCrash keeps what is in flight recorded, see poison.Journal.Freeze, and pulls no more.
func (w *worker) markCrash() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quarantine.journal.Freeze()
	w.stop()
	w.crash()
}

// closeJournal closes the journal, if there is one.
func (w *worker) closeJournal() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.quarantine == nil {
		return nil
	}
	return w.quarantine.journal.Close()
}

// deliver handles one delivery by the history of its response. A response that was in
// flight when processes died is handled in isolation, and dead-lettered if that kills a
// process, too.
func (w *worker) deliver(ctx context.Context, d *delivery) outcome {
	s, err := d.quarantine.suspects.Of(ctx, d.meta.Sequence.Stream, d.redelivered())
	if err != nil {
		return w.storeFailed(d, err)
	}
	d.deaths = s.Deaths
	switch {
	case s.Fatal():
		return w.giveUp(ctx, d)
	case s.Isolated():
		return w.handleIsolated(ctx, d)
	default:
		slot := d.quarantine.journal.Begin(d.meta.Sequence.Stream)
		defer slot.End()
		return w.handle(ctx, d)
	}
}

// forget removes a completed response from the suspects, after its slot and memory were
// released.
func (w *worker) forget(ctx context.Context, d *delivery) {
	sequence := d.meta.Sequence.Stream
	if err := d.quarantine.suspects.Forget(ctx, sequence); err != nil {
		w.log.Debug().Err(err).Uint64("sequence", sequence).Msg("cannot remove completed responses from the list of suspects")
	}
}

// handleIsolated handles a suspect while this process handles no other suspect, in
// batches that contain no other response.
func (w *worker) handleIsolated(ctx context.Context, d *delivery) outcome {
	select {
	case w.isolated <- struct{}{}:
		defer func() { <-w.isolated }()
	case <-ctx.Done():
		return w.fail(ctx, d, ctx.Err())
	}
	sequence := d.meta.Sequence.Stream
	held, err := d.quarantine.suspects.Hold(ctx, sequence, w.id.String(), d.meta.NumDelivered)
	switch {
	case err != nil:
		return w.storeFailed(d, err)
	case !held: // another process scores it, or died of it and will record that when it restarts
		w.nak(d, w.cfg.RetryMax)
		return outcomeDeferred
	}
	w.log.Warn().Str("subject", d.msg.Subject()).Uint64("sequence", sequence).Int("deaths", d.deaths).
		Msg("scoring a response in isolation that was in flight when processes died")
	slot := d.quarantine.journal.Begin(sequence)
	d.exclusive = slot.Computing
	o := w.handle(ctx, d)
	slot.End()
	if o.completed() {
		return o // process forgets it
	}
	ask, cancel := context.WithTimeout(context.WithoutCancel(ctx), js.RequestTimeout)
	defer cancel()
	if err := d.quarantine.suspects.Release(ask, sequence, w.id.String()); err != nil {
		w.log.Warn().Err(err).Uint64("sequence", sequence).Msg("cannot release a response that is reserved for this process")
	}
	return o
}

// giveUp stores the dead letter of a response that kills processes, unless it has its
// reward: a process may have died between storing that and acknowledging the response.
func (w *worker) giveUp(ctx context.Context, d *delivery) outcome {
	completed, err := w.results.Seen(ctx, d.identity(), time.Now())
	if err != nil {
		return w.storeFailed(d, err)
	}
	if completed {
		w.acknowledge(d)
		return outcomeDuplicate
	}
	return w.deadLetter(ctx, d, ReasonCrash, &Error{Code: errorcode.Internal.HTTP(), Name: string(errorcode.Internal),
		Message: fmt.Sprintf("processes died %d times with it in flight, the last time while it was scored in isolation", d.deaths)})
}
