package labels

import (
	"context"
	"errors"
	"strings"
	"time"

	"assay/queue/internal/js"
	"assay/rewardmodel/feedback"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// indexIdle is after how long without a message the indexer checks whether the
	// stream is still the same.
	indexIdle = 2 * time.Second

	// stallCooldown is after how long a consumer that delivers nothing more may
	// count as stalled again.
	stallCooldown = time.Minute

	indexAhead = 2000 // messages without their bodies that wait in memory
)

// indexer reads everything in the stream into an index, in order.
type indexer struct {
	*Log
	index   *feedback.Index
	next    uint64    // sequence to read from
	created time.Time // of the stream
	started time.Time // when the index was started
	gaps    []js.Gap  // sequences before next that were not delivered
	missed  bool      // some of them are stored, so that the index has to be read again
	erased  int       // see Log.erased

	stalledAt   uint64 // last sequence of the stream when the consumer was stalled
	stalledTime time.Time
}

// follow keeps the index up to date until ctx ends.
func (l *Log) follow(ctx context.Context) {
	w := &indexer{Log: l}
	for failures := uint64(0); ctx.Err() == nil; {
		switch err := w.run(ctx); {
		case err == nil:
			failures = 0
		case ctx.Err() == nil:
			failures++
			l.log.Warn().Err(js.Explain(err)).Msg("cannot follow the feedback stream; retrying")
			js.Sleep(ctx, backoff().Delay(failures))
		}
	}
}

// run follows the stream until the connection was replaced, the index is too old, or
// something fails.
func (w *indexer) run(ctx context.Context) error {
	reconnects := w.nc.Stats().Reconnects
	ask, cancel := context.WithTimeout(ctx, js.RequestTimeout)
	defer cancel()
	info, err := w.stream.Info(ask)
	if err != nil {
		return err
	}
	if w.resume(info) && w.cfg.MaxAge > 0 {
		if err := w.expire(ask, info); err != nil {
			return err
		}
	}
	consumer, err := js.OrderedConsumer(ask, w.stream, jetstream.OrderedConsumerConfig{HeadersOnly: true,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: w.next})
	if err != nil {
		return err
	}
	defer js.RemoveConsumer(ctx, w.stream, consumer)
	state, err := consumer.Info(ask)
	if err != nil {
		return err
	}
	iter, err := consumer.Messages(jetstream.PullMaxMessages(indexAhead))
	if err != nil {
		return err
	}
	defer iter.Stop()
	if state.NumPending == 0 {
		w.reached(info.State.LastSeq)
	}
	reported := false // what the server has lost
	for ctx.Err() == nil && w.nc.Stats().Reconnects == reconnects && !w.outdated() {
		err := w.take(ctx, iter, info.State.LastSeq)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			var info *jetstream.StreamInfo
			if info, err = w.info(ctx); err == nil && (w.replaced(info) || w.stalled(info)) {
				return nil
			}
			if err == nil && !reported {
				reported = true
				w.reportLost(ctx)
			}
			if err == nil {
				err = w.verifyGaps(ctx)
			}
			if err == nil && !w.read() {
				err = w.finish(ctx, info.State.LastSeq)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// read reports whether the index is in use.
func (w *indexer) read() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current && w.Log.index == w.index
}

// verifyGaps returns an error if the leader of the stream stores a message that the
// consumer did not deliver: its server may be behind, or have lost it. If the leader does
// not reply, the index stays in use, and the next call asks again.
func (w *indexer) verifyGaps(ctx context.Context) error {
	_, err := js.Unreadable(ctx, w.stream, w.gaps) // Verify reports those that are damaged
	switch {
	case err == nil:
		w.gaps = nil
	case errors.Is(err, js.ErrUndelivered):
		w.missed = true
		return err
	default:
		w.log.Debug().Err(err).Msg("cannot compare the labels that were read with the feedback stream")
	}
	return nil
}

// finish puts the index to use if the stream has no further message: a consumer counts
// a message that the server finds damaged as pending, and never delivers it.
func (w *indexer) finish(ctx context.Context, last uint64) error {
	_, err := js.FirstFrom(ctx, w.stream, SubjectFeedback+".>", w.next)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		w.reached(last)
		_, err = w.Verify(ctx) // reports which are damaged
	}
	return err
}

// replaced reports whether the stream was created again, or lost its end because the
// machine did.
func (w *indexer) replaced(info *jetstream.StreamInfo) bool {
	return !w.created.Equal(info.Created) || info.State.LastSeq+1 < w.next
}

// stalled reports whether the stream has more than was read, and yet nothing comes:
// the consumer died with its server, without notice, or the rest was erased. A new
// consumer shows which, and does not count as stalled again for a while.
func (w *indexer) stalled(info *jetstream.StreamInfo) bool {
	last := info.State.LastSeq
	if last < w.next || last == w.stalledAt && time.Since(w.stalledTime) < stallCooldown {
		return false
	}
	w.stalledAt, w.stalledTime = last, time.Now()
	return true
}

// resume decides where to continue, and reports whether that is the start of the
// stream. A stream that was replaced needs a new index, and so do records that
// expire, that were not delivered, or that were erased because they are damaged.
func (w *indexer) resume(info *jetstream.StreamInfo) bool {
	switch {
	case w.index == nil, w.replaced(info), w.erased != w.erasedRecords():
		w.mu.Lock()
		w.current = false
		w.mu.Unlock()
	case !w.outdated() && !w.missed:
		return false
	}
	w.index, w.next, w.created, w.started = feedback.NewIndex(), 1, info.Created, time.Now()
	w.gaps, w.missed, w.erased = nil, false, w.erasedRecords()
	return true
}

// expire removes the records that are older than MaxAge. The tombstones stay.
func (w *indexer) expire(ctx context.Context, info *jetstream.StreamInfo) error {
	oldest := info.TimeStamp.Add(-w.cfg.MaxAge) // by the clock of the server, like the times of the records
	keep := info.State.LastSeq + 1              // the first record that has not expired
	if info.State.LastTime.After(oldest) {
		consumer, err := js.OrderedConsumer(ctx, w.stream, jetstream.OrderedConsumerConfig{HeadersOnly: true,
			DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &oldest})
		if err != nil {
			return err
		}
		defer js.RemoveConsumer(ctx, w.stream, consumer)
		state, err := consumer.Info(ctx)
		if err != nil {
			return err
		}
		if state.NumPending > 0 { // or the last ones were erased
			msg, err := consumer.Next(jetstream.FetchContext(ctx))
			if err != nil {
				return err
			}
			meta, err := msg.Metadata()
			if err != nil {
				return err
			}
			keep = meta.Sequence.Stream
		}
	}
	if keep <= 1 {
		return nil
	}
	return w.stream.Purge(ctx, jetstream.WithPurgeSubject(subjectRecords+".>"), jetstream.WithPurgeSequence(keep))
}

// outdated reports whether the index may hold many records that have expired. It
// stays in use until its replacement is read.
func (w *indexer) outdated() bool {
	return w.cfg.MaxAge > 0 && time.Since(w.started) > min(w.cfg.MaxAge, time.Hour)
}

// take reads one message into the index.
func (w *indexer) take(ctx context.Context, iter jetstream.MessagesContext, known uint64) error {
	ctx, cancel := context.WithTimeout(ctx, indexIdle)
	defer cancel()
	msg, err := iter.Next(jetstream.NextContext(ctx))
	if err != nil {
		return err
	}
	meta, err := msg.Metadata()
	if err != nil {
		return err
	}
	sequence := meta.Sequence.Stream
	if sequence > w.next {
		w.gaps = append(w.gaps, js.Gap{First: w.next, Last: sequence - 1})
	}
	if err := w.apply(msg.Subject(), msg.Headers(), sequence); err != nil {
		w.log.Warn().Err(err).Str("subject", msg.Subject()).Uint64("sequence", sequence).
			Msg("ignored an unrecognized message in the feedback stream")
	}
	w.next = sequence + 1
	if meta.NumPending == 0 {
		w.reached(max(sequence, known))
	} else {
		w.advance(sequence)
	}
	return nil
}

// apply adds one message to the index. If that panics, it returns the panic as an
// error, so that the indexer skips the message.
func (w *indexer) apply(subject string, header nats.Header, sequence uint64) (err error) {
	defer func() {
		if value := recover(); value != nil {
			w.cfg.Panics.Inc()
			err = js.Recovered(value, "label", w.log)
		}
	}()
	if subject == subjectConfirmed {
		return nil
	}
	if _, damaged := js.VerifyHeader(subject, header); damaged != nil {
		return w.applyDamaged(subject, header, sequence)
	}
	unrecognized := !js.Authentic(subject, header)
	if id, ok := strings.CutPrefix(subject, subjectTombstones+"."); ok {
		hash, err := feedback.ParseHash(id)
		switch {
		case err != nil:
			return err
		case !unrecognized:
			w.index.Erase(hash, sequence)
			w.erasures.add(hash, false)
			return nil
		case w.index.Erased(hash) || w.Index().Erased(hash):
			w.erasures.add(hash, true) // it replaced the tombstone
		}
	}
	if unrecognized {
		return errors.New("assay did not write it; check who may publish to this subject")
	}
	mark, err := readMark(subject, header, sequence)
	if err != nil {
		return err
	}
	w.index.Apply(mark)
	if w.index.Erased(mark.ID) { // stored by a process that did not know the tombstone yet
		w.erasures.add(mark.ID, false)
	}
	return nil
}

// applyDamaged reports a record whose headers are damaged. A tombstone counts even so if
// its subject is intact, or texts would be used again that were erased: it is stored
// again.
func (w *indexer) applyDamaged(subject string, header nats.Header, sequence uint64) error {
	w.cfg.Damage.Report(js.DamagedRecord{Stream: StreamFeedback, Subject: subject, Sequence: sequence})
	id, tombstone := strings.CutPrefix(subject, subjectTombstones+".")
	if !tombstone || header.Get(js.HeaderRecord) != subject {
		return nil
	}
	hash, err := feedback.ParseHash(id)
	if err == nil {
		w.index.Erase(hash, sequence)
		w.erasures.add(hash, true)
	}
	return err
}

// advance records the progress of an index that is in use.
func (w *indexer) advance(sequence uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Log.index == w.index && w.current {
		w.position = sequence
		w.notify()
	}
}

// reached records that there is no more to read for now: the index is in use.
func (w *indexer) reached(sequence uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Log.index, w.current, w.position, w.Log.erased = w.index, true, sequence, w.erased
	w.notify()
}
