package labels

import (
	"context"
	"fmt"
	"iter"

	"assay/queue/internal/js"
	"assay/rewardmodel/feedback"

	"github.com/nats-io/nats.go/jetstream"
)

// Records yields the stored records up to a sequence, in the order in which they
// were stored: the latest of each response and rater, without those that were
// erased or withdrawn, or are damaged. It omits a record that was corrected after that sequence. It holds a few
// of the largest messages in memory, and not the whole stream. An error ends the
// iteration; it wraps feedback.ErrUnavailable, or is that of ctx.
func (l *Log) Records(ctx context.Context, through uint64) iter.Seq2[feedback.Stored, error] {
	return func(yield func(feedback.Stored, error) bool) {
		if err := l.await(ctx, through); err != nil { // so that earlier tombstones are known
			yield(feedback.Stored{}, err)
			return
		}
		defer l.reportLost(ctx)
		for msg, err := range l.scan(ctx, l.stream, subjectRecords+".>", 1, through) {
			if err != nil {
				yield(feedback.Stored{}, err)
				return
			}
			if !l.intact(l.stream, msg) || !js.Authentic(msg.Subject, msg.Header) {
				continue // the indexer logs the latter
			}
			if msg.Header.Get(HeaderLabel) == labelWithdrawn {
				continue
			}
			record, err := feedback.ParseRecord(msg.Data)
			if err != nil {
				l.log.Warn().Err(err).Uint64("sequence", msg.Sequence).Msg("ignored an invalid record in the feedback stream")
				continue
			}
			if l.Index().Erased(feedback.HashOf(record.Bag.ID)) {
				continue
			}
			if !yield(feedback.Stored{Sequence: msg.Sequence, Record: record}, nil) {
				return
			}
		}
	}
}

// intact reports whether a record is as it was stored, and reports it if it is not.
func (l *Log) intact(stream jetstream.Stream, msg js.Message) bool {
	_, err := js.Verify(msg.Subject, msg.Header, msg.Data)
	if err != nil {
		l.cfg.Damage.Report(js.DamagedRecord{Stream: stream.CachedInfo().Config.Name, Subject: msg.Subject, Sequence: msg.Sequence})
	}
	return err == nil
}

// scan yields the messages of a stream whose sequences are from first to last. An
// error ends it; it wraps feedback.ErrUnavailable, or is that of ctx.
func (l *Log) scan(ctx context.Context, stream jetstream.Stream, subject string, first, last uint64) iter.Seq2[js.Message, error] {
	return func(yield func(js.Message, error) bool) {
		r := js.Range{Subject: subject, First: first, Last: last, MaxBytes: int(4 * l.nc.MaxPayload())}
		for msg, err := range js.Scan(ctx, stream, r) {
			if err != nil {
				err = unavailable(ctx, fmt.Errorf("reading stream %s: %w", stream.CachedInfo().Config.Name, js.Explain(err)))
			}
			if !yield(msg, err) {
				return
			}
		}
	}
}
