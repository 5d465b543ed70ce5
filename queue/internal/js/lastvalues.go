package js

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/xid"
	"github.com/rs/zerolog"
)

// LastValues reads the last value of subjects of a stream that keeps some earlier
// values. A value that was overwritten by a message that is not authentic is
// stored again, by the first replica that reads it.
//
// So is a damaged value that this process has in memory.
type LastValues struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	// target maps a subject of the stream to the one to publish to.
	target func(subject string) string
	damage *Damage
	log    zerolog.Logger

	mu sync.Mutex
	// seen holds the last authentic message of each subject that this process
	// has read or written: a client may overwrite all that the stream keeps.
	seen map[string]*jetstream.RawStreamMsg
}

// NewLastValues returns a reader of stream. target maps a subject of the stream to
// the subject to publish to, and damage gets the damaged values.
func NewLastValues(js jetstream.JetStream, stream jetstream.Stream, target func(string) string, damage *Damage, log zerolog.Logger) *LastValues {
	return &LastValues{js: js, stream: stream, target: target, damage: damage, log: log, seen: map[string]*jetstream.RawStreamMsg{}}
}

// Read returns the last authentic message of a subject. Its sequence is that of
// the last message of any origin, which is what a compare-and-set names. Without
// an authentic message the header and the data are nil. A subject without any
// message is jetstream.ErrMsgNotFound. If the last message is damaged, and this
// process does not know what it was, the error wraps ErrDamaged, and the message has
// only the sequence.
func (v *LastValues) Read(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	for {
		last, err := v.last(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			restored, damaged := v.unreadable(ctx, subject)
			if errors.Is(damaged, errStored) {
				continue
			}
			if damaged != nil || restored != nil {
				return restored, damaged
			}
			v.Forget(subject)
		}
		if err != nil {
			return nil, err
		}
		_, damaged := Verify(subject, last.Header, last.Data)
		if damaged == nil && Authentic(subject, last.Header) {
			v.Remember(last)
			return last, nil
		}
		var before *jetstream.RawStreamMsg
		if damaged != nil {
			v.damage.Report(DamagedRecord{v.stream.CachedInfo().Config.Name, subject, last.Sequence})
			if before = v.remembered(subject, last.Sequence); before == nil {
				return &jetstream.RawStreamMsg{Subject: subject, Sequence: last.Sequence, Time: last.Time},
					fmt.Errorf("sequence %d of %s: %w", last.Sequence, subject, damaged)
			}
		} else if before, err = v.before(ctx, last); err != nil {
			return nil, err
		}
		if before == nil {
			v.log.Error().Str("subject", subject).Uint64("sequence", last.Sequence).
				Msg("ignored a message that assay did not write; check who may publish to this subject")
			return &jetstream.RawStreamMsg{Subject: subject, Sequence: last.Sequence, Time: last.Time}, nil
		}
		restored, err := v.restore(ctx, before, last.Sequence)
		if !WrongSequence(err) {
			return restored, err
		} // else there is a later message: read again
	}
}

var errStored = errors.New("stored in the meantime")

// unreadable handles a subject whose last message the server does not find. If the
// stream counts messages of it, the server cannot read the last one. If this process
// knows which that was, unreadable stores it again and returns it; otherwise its error
// wraps ErrDamaged. errStored: there is a message now.
func (v *LastValues) unreadable(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	counts, err := SubjectCounts(ctx, v.stream, subject)
	if err != nil {
		return nil, err
	}
	if counts[subject] == 0 {
		return nil, nil
	}
	if _, err := v.last(ctx, subject); err == nil {
		return nil, errStored
	} else if !errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, err
	}
	record := DamagedRecord{Stream: v.stream.CachedInfo().Config.Name, Subject: subject}
	v.mu.Lock()
	known := v.seen[subject]
	v.mu.Unlock()
	if known != nil {
		record.Sequence = known.Sequence
		v.damage.Report(record)
		if restored, err := v.restore(ctx, known, 0); err == nil { // 0: the server finds no message of the subject
			return restored, nil
		} else if _, err := v.last(ctx, subject); err == nil { // of another replica, which was first
			return nil, errStored
		}
	}
	v.damage.Report(record)
	return &jetstream.RawStreamMsg{Subject: subject}, fmt.Errorf("the last message of %s: %w", subject, ErrDamaged)
}

func (v *LastValues) last(ctx context.Context, subject string) (msg *jetstream.RawStreamMsg, err error) {
	err = Retry(ctx, func(ctx context.Context) (err error) {
		msg, err = v.stream.GetLastMsgForSubject(ctx, subject)
		return err
	})
	return msg, err
}

// Remember keeps a message, unless a later one is known.
func (v *LastValues) Remember(msg *jetstream.RawStreamMsg) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if known := v.seen[msg.Subject]; known == nil || known.Sequence < msg.Sequence {
		v.seen[msg.Subject] = msg
	}
}

// remembered returns what a message was when this process read or wrote it, or nil.
func (v *LastValues) remembered(subject string, sequence uint64) *jetstream.RawStreamMsg {
	v.mu.Lock()
	defer v.mu.Unlock()
	if known := v.seen[subject]; known != nil && known.Sequence == sequence {
		return known
	}
	return nil
}

// Forget drops what is known of a subject whose messages were removed, so that
// a message that is not authentic does not bring them back.
func (v *LastValues) Forget(subject string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.seen, subject)
}

// before returns the last authentic message of a subject before one that is
// not, or nil.
func (v *LastValues) before(ctx context.Context, unrecognized *jetstream.RawStreamMsg) (*jetstream.RawStreamMsg, error) {
	v.mu.Lock()
	found := v.seen[unrecognized.Subject]
	v.mu.Unlock()
	if found != nil && found.Sequence > unrecognized.Sequence {
		found = nil // of a stream that was deleted and created again
	}
	for from := uint64(1); from < unrecognized.Sequence; {
		var msg *jetstream.RawStreamMsg
		err := Retry(ctx, func(ctx context.Context) (err error) {
			msg, err = FirstFrom(ctx, v.stream, unrecognized.Subject, from)
			return err
		})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		if err != nil {
			return nil, err
		}
		_, damaged := Verify(msg.Subject, msg.Header, msg.Data)
		if damaged == nil && Authentic(msg.Subject, msg.Header) && msg.Sequence < unrecognized.Sequence && (found == nil || found.Sequence < msg.Sequence) {
			found = msg
		}
		from = msg.Sequence + 1
	}
	return found, nil
}

// restore stores a message again, if the last one of its subject still has the
// given sequence. If storing fails, it returns the message anyway: readers get the
// right value.
func (v *LastValues) restore(ctx context.Context, msg *jetstream.RawStreamMsg, unrecognized uint64) (*jetstream.RawStreamMsg, error) {
	header := nats.Header{}
	for _, name := range []string{headerKVOperation, jetstream.MsgRollup} {
		if value := msg.Header.Get(name); value != "" {
			header.Set(name, value)
		}
	}
	header.Set(jetstream.MsgIDHeader, xid.New().String()) // the stored id would be a duplicate
	Seal(msg.Subject, header, msg.Data)
	var ack *jetstream.PubAck
	err := Retry(ctx, func(ctx context.Context) (err error) {
		ack, err = v.js.PublishMsg(ctx, &nats.Msg{Subject: v.target(msg.Subject), Header: header, Data: msg.Data},
			jetstream.WithExpectLastSequencePerSubject(unrecognized))
		return err
	})
	if WrongSequence(err) {
		return nil, err
	}
	event := v.log.Error().Str("subject", msg.Subject).Uint64("sequence", unrecognized)
	restored := &jetstream.RawStreamMsg{Subject: msg.Subject, Sequence: unrecognized, Header: header, Data: msg.Data, Time: msg.Time}
	if err != nil {
		event.AnErr("cause", fmt.Errorf("storing: %w", err)).Msg("cannot restore a value that is damaged, or that a message from another client has overwritten; check the disk, and who may publish to this subject")
		return restored, nil
	}
	restored.Sequence = ack.Sequence
	v.Remember(restored)
	event.Msg("restored a value that was damaged, or that a message from another client had overwritten; check the disk, and who may publish to this subject")
	return restored, nil
}
