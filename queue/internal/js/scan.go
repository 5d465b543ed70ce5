package js

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// consumerIdle is when the server removes the consumer of a read that ended, if
	// RemoveConsumer did not.
	consumerIdle = 30 * time.Second

	// removeTimeout bounds RemoveConsumer: a server that died does not reply.
	removeTimeout = time.Second

	// consumerResets is how often the library may replace a consumer that is
	// gone. By default it tries forever, whatever the context says, and under one
	// name, which a server that died may hold. Callers start again instead.
	consumerResets = 1

	// scanCheck is after how long without a message Scan asks the server whether
	// one is left to wait for.
	scanCheck = 500 * time.Millisecond

	scanAhead = 1000 // messages of headers only that wait in memory
)

// OrderedConsumer creates a consumer that this process reads once, in order. Call
// RemoveConsumer afterward.
func OrderedConsumer(ctx context.Context, stream jetstream.Stream, cfg jetstream.OrderedConsumerConfig) (jetstream.Consumer, error) {
	cfg.InactiveThreshold, cfg.MaxResetAttempts = consumerIdle, consumerResets
	return stream.OrderedConsumer(ctx, cfg)
}

// RemoveConsumer removes a consumer that was read. By default, nats-server accepts 1,000 per
// stream, which frequent reads would reach before the server removes those that are idle.
func RemoveConsumer(ctx context.Context, stream jetstream.Stream, consumer jetstream.Consumer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	_ = stream.DeleteConsumer(ctx, consumer.CachedInfo().Name) // if this fails, the server removes it later
}

// Message is a message of a stream.
type Message struct {
	Sequence uint64
	Subject  string
	Header   nats.Header
	Data     []byte
	Time     time.Time // when the server stored it, by its clock
}

// Range selects messages of a stream.
type Range struct {
	Subject     string // may have wildcards
	First, Last uint64 // sequences, both included
	HeadersOnly bool   // without Data
	MaxBytes    int    // of the messages that wait in memory, if not HeadersOnly
}

// Scan yields the messages of a range in order, as its leader has them. An error
// ends it.
func Scan(ctx context.Context, stream jetstream.Stream, r Range) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		take := func(m Message) bool {
			r.First = m.Sequence + 1
			return yield(m, nil)
		}
		for r.First <= r.Last {
			err := consume(ctx, stream, r, take)
			if err == nil && r.First <= r.Last {
				// The consumer may be on a server that is behind the leader, and
				// counts too few messages when some are removed while it reads. So
				// the leader decides whether this is the end.
				var msg *jetstream.RawStreamMsg
				msg, err = FirstFrom(ctx, stream, r.Subject, r.First)
				if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && msg.Sequence > r.Last {
					return
				}
				if err == nil && !take(Message{msg.Sequence, msg.Subject, msg.Header, msg.Data, msg.Time}) {
					return
				}
			}
			if errors.Is(err, errStopped) {
				return
			}
			if err != nil {
				yield(Message{}, err)
				return
			}
		}
	}
}

// consume reads a range until the server has no more, or yield returns false,
// which is errStopped.
func consume(ctx context.Context, stream jetstream.Stream, r Range, yield func(Message) bool) error {
	ask, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	consumer, err := OrderedConsumer(ask, stream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{r.Subject}, HeadersOnly: r.HeadersOnly,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(r.First, 1)})
	if err != nil {
		return err
	}
	defer RemoveConsumer(ctx, stream, consumer)
	info, err := consumer.Info(ask)
	if err != nil || info.NumPending == 0 {
		return err
	}
	var ahead jetstream.PullMessagesOpt = jetstream.PullMaxMessages(scanAhead)
	if !r.HeadersOnly {
		ahead = jetstream.PullMaxBytes(r.MaxBytes)
	}
	messages, err := consumer.Messages(ahead)
	if err != nil {
		return err
	}
	defer messages.Stop()
	after := r.First - 1 // the last sequence that was read
	for {
		msg, err := next(ctx, consumer, messages, func() (bool, error) { return exhausted(ctx, stream, r.Subject, after+1) })
		if msg == nil || err != nil {
			return err
		}
		meta, err := msg.Metadata()
		if err != nil {
			return err
		}
		if meta.Sequence.Stream > r.Last {
			return nil
		}
		after = meta.Sequence.Stream
		if !yield(Message{meta.Sequence.Stream, msg.Subject(), msg.Headers(), msg.Data(), meta.Timestamp}) {
			return errStopped
		}
		if meta.NumPending == 0 || meta.Sequence.Stream == r.Last {
			return nil
		}
	}
}

// next returns the next message, or nil when the server has none left although an
// earlier message announced one: what is erased in the meantime is never delivered,
// and neither is a message that the server finds damaged, which its consumers count
// forever. exhausted reports whether the leader has no further message.
func next(ctx context.Context, consumer jetstream.Consumer, messages jetstream.MessagesContext, exhausted func() (bool, error)) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	for {
		wait, stop := context.WithTimeout(ctx, scanCheck)
		msg, err := messages.Next(jetstream.NextContext(wait))
		stop()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return msg, err
		}
		info, err := consumer.Info(ctx)
		if err != nil || info.NumPending == 0 {
			return nil, err
		}
		if end, err := exhausted(); end || err != nil {
			return nil, err
		}
	}
}

// exhausted reports whether a stream has no readable message from a sequence on.
func exhausted(ctx context.Context, stream jetstream.Stream, subject string, from uint64) (bool, error) {
	_, err := FirstFrom(ctx, stream, subject, from)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return true, nil
	}
	return false, err
}

// FirstFrom returns the first message of a stream from a sequence on, as its
// leader has it (any of its servers, where the stream allows direct reads), or
// jetstream.ErrMsgNotFound.
func FirstFrom(ctx context.Context, stream jetstream.Stream, subject string, from uint64) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	return reported(stream.GetMsg(ctx, max(from, 1), jetstream.WithGetMsgSubject(subject)))
}

// LastMessage returns the last message of a subject, or jetstream.ErrMsgNotFound.
func LastMessage(ctx context.Context, stream jetstream.Stream, subject string) (*jetstream.RawStreamMsg, error) {
	return reported(stream.GetLastMsgForSubject(ctx, subject))
}

// reported gives a message the sequence and the subject that the server reports. A
// direct get has them in headers after the headers of the message, and the client
// library reads the first one: the wrong one if the message was stored with the headers
// of a direct get.
func reported(msg *jetstream.RawStreamMsg, err error) (*jetstream.RawStreamMsg, error) {
	if err != nil {
		return nil, err
	}
	if values := msg.Header.Values(jetstream.SequenceHeader); len(values) > 1 {
		msg.Sequence, err = strconv.ParseUint(values[len(values)-1], 10, 64)
	}
	if values := msg.Header.Values(jetstream.SubjectHeader); len(values) > 1 {
		msg.Subject = values[len(values)-1]
	}
	return msg, err
}

// SubjectCounts returns the number of messages of each subject of a stream.
func SubjectCounts(ctx context.Context, stream jetstream.Stream, filter string) (map[string]uint64, error) {
	var info *jetstream.StreamInfo
	err := Retry(ctx, func(ctx context.Context) (err error) {
		info, err = stream.Info(ctx, jetstream.WithSubjectFilter(filter))
		return err
	})
	if err != nil {
		return nil, err
	}
	return info.State.Subjects, nil
}
