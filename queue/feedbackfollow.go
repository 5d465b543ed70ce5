package queue

import (
	"context"
	"errors"
	"strings"
	"time"

	"assay/rewardmodel/feedback"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// indexIdle is after how long without a message the indexer looks
	// whether the server is still the one that it knows.
	indexIdle = 2 * time.Second

	// doubtAgain is after how long a consumer that brings nothing more is
	// doubted again.
	doubtAgain = time.Minute

	followPull = 2000 // messages without their texts
)

// indexer tells an index of everything in the stream, in order.
type indexer struct {
	*Feedback
	index *feedback.Index
	next  uint64    // sequence to read from
	born  time.Time // when the stream was created
	built time.Time // when the index was begun

	doubted  uint64 // last sequence of the stream when the consumer was doubted
	doubtful time.Time
}

// follow keeps the index until ctx ends.
func (f *Feedback) follow(ctx context.Context) {
	w := &indexer{Feedback: f}
	for failures := uint64(0); ctx.Err() == nil; {
		switch err := w.run(ctx); {
		case err == nil:
			failures = 0
		case ctx.Err() == nil:
			failures++
			f.log.Warn().Err(explain(err)).Msg("cannot follow the feedback; trying again")
			pause(ctx, retryDelay(failures, feedbackRetryBase, feedbackRetryMax))
		}
	}
}

// run follows the stream until the connection is another one, the index is too
// old, or something fails.
func (w *indexer) run(ctx context.Context) error {
	reconnects := w.nc.Stats().Reconnects
	ask, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	info, err := w.stream.Info(ask)
	if err != nil {
		return err
	}
	if w.resume(info) && w.maxAge > 0 {
		if err := w.expire(ask, info); err != nil {
			return err
		}
	}
	consumer, err := w.stream.OrderedConsumer(ask, jetstream.OrderedConsumerConfig{HeadersOnly: true,
		InactiveThreshold: ledgerIdle, MaxResetAttempts: resetAttempts, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: w.next})
	if err != nil {
		return err
	}
	state, err := consumer.Info(ask)
	if err != nil {
		return err
	}
	iter, err := consumer.Messages(jetstream.PullMaxMessages(followPull))
	if err != nil {
		return err
	}
	defer iter.Stop()
	if state.NumPending == 0 {
		w.reached(info.State.LastSeq)
	}
	for ctx.Err() == nil && w.nc.Stats().Reconnects == reconnects && !w.tooOld() {
		err := w.take(ctx, iter, info.State.LastSeq)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			var info *jetstream.StreamInfo
			if info, err = w.look(ctx); err == nil && (w.another(info) || w.stuck(info)) {
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *indexer) look(ctx context.Context) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return w.stream.Info(ctx)
}

// another tells that the stream was made anew, or lost its end because the
// machine did.
func (w *indexer) another(info *jetstream.StreamInfo) bool {
	return !w.born.Equal(info.Created) || info.State.LastSeq+1 < w.next
}

// stuck tells that the stream goes on beyond what was read, and yet nothing
// comes: the consumer has died with its server, which nobody tells, or what is
// left was erased. A new consumer shows which, and is not doubted again so soon.
func (w *indexer) stuck(info *jetstream.StreamInfo) bool {
	last := info.State.LastSeq
	if last < w.next || last == w.doubted && time.Since(w.doubtful) < doubtAgain {
		return false
	}
	w.doubted, w.doubtful = last, time.Now()
	return true
}

// resume decides where to read on, and returns whether that is the beginning.
// Another stream needs a new index, and so does one whose records expire.
func (w *indexer) resume(info *jetstream.StreamInfo) bool {
	switch {
	case w.index == nil, w.another(info):
		w.mu.Lock()
		w.current = false
		w.mu.Unlock()
	case !w.tooOld():
		return false
	}
	w.index, w.next, w.born, w.built = feedback.NewIndex(), 1, info.Created, time.Now()
	return true
}

// expire removes the records that are too old. The tombstones stay.
func (w *indexer) expire(ctx context.Context, info *jetstream.StreamInfo) error {
	oldest := info.TimeStamp.Add(-w.maxAge) // by the clock of the server, as the times of the records
	keep := info.State.LastSeq + 1          // the first record that is young enough
	if info.State.LastTime.After(oldest) {
		consumer, err := w.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{HeadersOnly: true,
			InactiveThreshold: ledgerIdle, MaxResetAttempts: resetAttempts, DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &oldest})
		if err != nil {
			return err
		}
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

// tooOld tells that the index may hold many records that have expired. It is
// replaced by another that is read while it serves on.
func (w *indexer) tooOld() bool {
	return w.maxAge > 0 && time.Since(w.built) > min(w.maxAge, time.Hour)
}

// take tells the index of one message.
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
	if err := w.tell(msg.Subject(), msg.Headers(), sequence); err != nil {
		w.log.Warn().Err(err).Str("subject", msg.Subject()).Uint64("sequence", sequence).
			Msg("an unrecognized message in the feedback stream is ignored")
	}
	w.next = sequence + 1
	if meta.NumPending == 0 {
		w.reached(max(sequence, known))
	} else {
		w.passed(sequence)
	}
	return nil
}

// tell skips a message whose reading panics, as it skips one that it cannot read.
func (w *indexer) tell(subject string, header nats.Header, sequence uint64) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = panicked(value, kindLabel, w.metrics, w.log)
		}
	}()
	foreign := !authentic(subject, header)
	if id, ok := strings.CutPrefix(subject, subjectTombstones+"."); ok {
		hash, err := feedback.ParseHash(id)
		switch {
		case err != nil:
			return err
		case !foreign:
			w.index.Erase(hash, sequence)
			w.sweeper.add(hash, false)
			return nil
		case w.index.Erased(hash) || w.Index().Erased(hash):
			w.sweeper.add(hash, true) // it took the place of the tombstone
		}
	}
	if foreign {
		return errors.New("assay did not write it; check who may publish to this subject")
	}
	mark, err := readMark(subject, header, sequence)
	if err != nil {
		return err
	}
	w.index.Apply(mark)
	if w.index.Erased(mark.ID) { // stored by somebody who did not know yet
		w.sweeper.add(mark.ID, false)
	}
	return nil
}

// passed says how far an index is that serves while more comes.
func (w *indexer) passed(sequence uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Feedback.index == w.index && w.current {
		w.position = sequence
		w.notify()
	}
}

// reached says that there is no more to read for now: the index serves.
func (w *indexer) reached(sequence uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Feedback.index, w.current, w.position = w.index, true, sequence
	w.notify()
}

// pause returns after d, or when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
