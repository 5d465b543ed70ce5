package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"assay/rewardmodel/feedback"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Records yields the stored records up to a sequence, in the order in which they
// were stored: of each response and rater the latest, without those that were
// erased. A record that was corrected after that sequence is not among them. It
// holds some of the largest messages in memory at once, and not the whole
// stream. An error ends it; it wraps feedback.ErrUnavailable, or is that of ctx.
func (f *Feedback) Records(ctx context.Context, through uint64) iter.Seq2[feedback.Stored, error] {
	return func(yield func(feedback.Stored, error) bool) {
		if err := f.await(ctx, through); err != nil { // so that tombstones before it are known
			yield(feedback.Stored{}, err)
			return
		}
		for msg, err := range f.scan(ctx, f.stream, subjectRecords+".>", 1, through) {
			if err != nil {
				yield(feedback.Stored{}, err)
				return
			}
			if !authentic(msg.subject, msg.header) {
				continue // the index reports it
			}
			record, err := feedback.ParseRecord(msg.data)
			if err != nil {
				f.log.Warn().Err(err).Uint64("sequence", msg.sequence).Msg("a message among the feedback cannot be read and does not count")
				continue
			}
			if f.Index().Erased(feedback.HashOf(record.Bag.ID)) {
				continue
			}
			if !yield(feedback.Stored{Sequence: msg.sequence, Record: record}, nil) {
				return
			}
		}
	}
}

// lastMessage reads the last message of a subject, with the sequence that the
// server reports. A direct get has that in a header after those of the message,
// and the client library reads the first: which is another one where a message
// was stored with the headers of a direct get.
func lastMessage(ctx context.Context, stream jetstream.Stream, subject string) (*jetstream.RawStreamMsg, error) {
	msg, err := stream.GetLastMsgForSubject(ctx, subject)
	if err != nil {
		return nil, err
	}
	if reported := msg.Header.Values(jetstream.SequenceHeader); len(reported) > 1 {
		msg.Sequence, err = strconv.ParseUint(reported[len(reported)-1], 10, 64)
	}
	return msg, err
}

// scanPatience is for how many times indexIdle a scan waits for the server.
const scanPatience = 5

// message is one message of a stream.
type message struct {
	sequence uint64
	subject  string
	header   nats.Header
	data     []byte
}

// scan yields the messages of a stream whose sequences are from first to last,
// in order, while the server has them ready ahead of the reader.
func (f *Feedback) scan(ctx context.Context, stream jetstream.Stream, subject string, first, last uint64) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		var err error
		for err == nil && first <= last {
			err = f.scanTo(ctx, stream, subject, first, last, func(m message) bool {
				first = m.sequence + 1
				return yield(m, nil)
			})
			// What is erased while a consumer reads can make the server
			// count less than it has left to deliver.
			if err == nil {
				var msg *jetstream.RawStreamMsg
				if msg, err = firstFrom(ctx, stream, subject, first); err == nil {
					first = msg.Sequence
				}
			}
		}
		if err != nil && !errors.Is(err, errEnough) && !errors.Is(err, jetstream.ErrMsgNotFound) {
			yield(message{}, unavailable(ctx, fmt.Errorf("reading stream %s: %w", stream.CachedInfo().Config.Name, explain(err))))
		}
	}
}

// errEnough ends a scan whose reader stopped.
var errEnough = errors.New("the reader has enough")

func (f *Feedback) scanTo(ctx context.Context, stream jetstream.Stream, subject string, first, last uint64, yield func(message) bool) error {
	ask, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	consumer, err := stream.OrderedConsumer(ask, jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject},
		InactiveThreshold: ledgerIdle, MaxResetAttempts: resetAttempts, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(first, 1)})
	if err != nil {
		return err
	}
	info, err := consumer.Info(ask)
	if err != nil || info.NumPending == 0 {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxBytes(int(4 * f.nc.MaxPayload())))
	if err != nil {
		return err
	}
	defer messages.Stop()
	for idle := 0; ; {
		wait, cancel := context.WithTimeout(ctx, indexIdle)
		msg, err := messages.Next(jetstream.NextContext(wait))
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && idle < scanPatience {
			// What was left may have been erased or replaced before it came.
			if idle++; f.exhausted(ctx, consumer) {
				return nil
			}
			continue
		}
		if err != nil {
			return err
		}
		idle = 0
		meta, err := msg.Metadata()
		if err != nil {
			return err
		}
		if meta.Sequence.Stream > last {
			return nil
		}
		if !yield(message{meta.Sequence.Stream, msg.Subject(), msg.Headers(), msg.Data()}) {
			return errEnough
		}
		if meta.NumPending == 0 || meta.Sequence.Stream == last {
			return nil
		}
	}
}

// exhausted tells that a consumer has delivered all that there is.
func (f *Feedback) exhausted(ctx context.Context, consumer jetstream.Consumer) bool {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	info, err := consumer.Info(ctx)
	return err == nil && info.NumPending == 0
}
