package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/xid"
	"github.com/rs/zerolog"
)

// HeaderRecord is in every message that the replicas of assay keep for
// themselves: labels, tombstones, values of ASSAY_STATE, names of objects, and
// events. Its value is the subject that the message was published to.
//
// NATS lets a client choose the subject of a reply, of the acknowledgement of a
// publication, and of the deliveries of a consumer. None of those carries this
// header for the subject that it reaches. This limits what a client can do that
// shares an account with assay, but is no guarantee, as the header is no
// signature and authentic accepts the messages of earlier releases: only
// separate accounts guarantee that a client without permission for a subject
// cannot write there.
const HeaderRecord = "Assay-Record"

// sign sets HeaderRecord for the subject that a message will be stored under.
func sign(subject string, header nats.Header) { header.Set(HeaderRecord, subject) }

// authentic reports whether a stored message was published to its subject by
// assay, or by an operator's tool with the same permissions.
//
// Earlier releases wrote no HeaderRecord. Their messages have a
// Nats-Msg-Id, which replies and acknowledgements never have, and which holds a
// space or begins with # in what a consumer of rewards or dead letters
// delivers (see responseKey). The tools of NATS mark what they remove.
func authentic(subject string, header nats.Header) bool {
	if record := header.Get(HeaderRecord); record != "" {
		return record == subject
	}
	if header.Get(kvOperation) != "" || header.Get(jetstream.MsgRollup) != "" {
		return true
	}
	id := header.Get(jetstream.MsgIDHeader)
	return id != "" && !strings.HasPrefix(id, "#") && !strings.Contains(id, " ")
}

// lastValues reads the last value of subjects of a stream whose earlier values
// are kept for a while. A value that was overwritten by a message that is not
// authentic is stored again, by the first replica that reads it.
type lastValues struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	// target maps a subject of the stream to the one to publish to.
	target func(subject string) string
	log    zerolog.Logger

	mu sync.Mutex
	// seen holds the last authentic message of each subject that this process
	// has read or written: somebody may overwrite all that the stream keeps.
	seen map[string]*jetstream.RawStreamMsg
}

func newLastValues(js jetstream.JetStream, stream jetstream.Stream, target func(string) string, log zerolog.Logger) *lastValues {
	return &lastValues{js: js, stream: stream, target: target, log: log, seen: map[string]*jetstream.RawStreamMsg{}}
}

// read returns the last authentic message of a subject. Its sequence is that of
// the last message of any origin, which is what a compare-and-set names. Without
// an authentic message the header and the data are nil. A subject without any
// message is jetstream.ErrMsgNotFound.
func (v *lastValues) read(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	for {
		last, err := v.last(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			v.forget(subject)
		}
		if err != nil {
			return nil, err
		}
		if authentic(subject, last.Header) {
			v.remember(last)
			return last, nil
		}
		before, err := v.before(ctx, last)
		if err != nil {
			return nil, err
		}
		if before == nil {
			v.log.Error().Str("subject", subject).Uint64("sequence", last.Sequence).
				Msg("a message that assay did not write is ignored; check who may publish to this subject")
			return &jetstream.RawStreamMsg{Subject: subject, Sequence: last.Sequence, Time: last.Time}, nil
		}
		restored, err := v.restore(ctx, before, last.Sequence)
		if !wrongSequence(err) {
			return restored, err
		} // else somebody wrote meanwhile: read again
	}
}

func (v *lastValues) last(ctx context.Context, subject string) (msg *jetstream.RawStreamMsg, err error) {
	err = retry(ctx, func(ctx context.Context) (err error) {
		msg, err = v.stream.GetLastMsgForSubject(ctx, subject)
		return err
	})
	return msg, err
}

// remember keeps a message, unless a later one is known.
func (v *lastValues) remember(msg *jetstream.RawStreamMsg) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if known := v.seen[msg.Subject]; known == nil || known.Sequence < msg.Sequence {
		v.seen[msg.Subject] = msg
	}
}

// forget drops what is known of a subject whose messages were removed, so that
// a message that is not authentic does not bring them back.
func (v *lastValues) forget(subject string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.seen, subject)
}

// before returns the last authentic message of a subject before one that is
// not, or nil.
func (v *lastValues) before(ctx context.Context, foreign *jetstream.RawStreamMsg) (*jetstream.RawStreamMsg, error) {
	v.mu.Lock()
	found := v.seen[foreign.Subject]
	v.mu.Unlock()
	if found != nil && found.Sequence > foreign.Sequence {
		found = nil // of a stream that was removed and made again
	}
	for from := uint64(1); from < foreign.Sequence; {
		var msg *jetstream.RawStreamMsg
		err := retry(ctx, func(ctx context.Context) (err error) {
			msg, err = firstFrom(ctx, v.stream, foreign.Subject, from)
			return err
		})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		if err != nil {
			return nil, err
		}
		if authentic(msg.Subject, msg.Header) && msg.Sequence < foreign.Sequence && (found == nil || found.Sequence < msg.Sequence) {
			found = msg
		}
		from = msg.Sequence + 1
	}
	return found, nil
}

// restore stores a message again, if the last one of its subject is still the
// one of the given sequence. Where it cannot be stored, it is returned all the
// same: readers have the right value.
func (v *lastValues) restore(ctx context.Context, msg *jetstream.RawStreamMsg, foreign uint64) (*jetstream.RawStreamMsg, error) {
	header := nats.Header{}
	for _, name := range []string{kvOperation, jetstream.MsgRollup} {
		if value := msg.Header.Get(name); value != "" {
			header.Set(name, value)
		}
	}
	sign(msg.Subject, header)
	header.Set(jetstream.MsgIDHeader, xid.New().String()) // its own is a duplicate
	var ack *jetstream.PubAck
	err := retry(ctx, func(ctx context.Context) (err error) {
		ack, err = v.js.PublishMsg(ctx, &nats.Msg{Subject: v.target(msg.Subject), Header: header, Data: msg.Data},
			jetstream.WithExpectLastSequencePerSubject(foreign))
		return err
	})
	if wrongSequence(err) {
		return nil, err
	}
	event := v.log.Error().Str("subject", msg.Subject).Uint64("sequence", foreign)
	restored := &jetstream.RawStreamMsg{Subject: msg.Subject, Sequence: foreign, Header: header, Data: msg.Data, Time: msg.Time}
	if err != nil {
		event.AnErr("cause", fmt.Errorf("storing: %w", err)).Msg("a value was overwritten by a message that assay did not write, and cannot be stored again; check who may publish to this subject")
		return restored, nil
	}
	restored.Sequence = ack.Sequence
	v.remember(restored)
	event.Msg("a value was overwritten by a message that assay did not write, and is stored again; check who may publish to this subject")
	return restored, nil
}
