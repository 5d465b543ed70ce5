package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"assay/queue/internal/js"
	"assay/rewardmodel/feedback"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go/jetstream"
)

// resultEraser erases the rewards and the dead letters of a response.
type resultEraser struct {
	js       jetstream.JetStream
	damage   *js.Damage
	maxBytes int      // of the messages that wait in memory
	erased   sync.Map // of interrupted erasures: the sequence up to which each is done, by its erasure
}

// erasure is the erasure of an id in a stream, which its name and time of creation
// identify.
type erasure struct {
	stream  string
	created int64
	id      feedback.Hash
}

func newResultEraser(jet jetstream.JetStream, maxPayload int64, damage *js.Damage) *resultEraser {
	return &resultEraser{js: jet, damage: damage, maxBytes: int(4 * maxPayload)}
}

// erase overwrites the rewards and the dead letters of an id, which contain a sentence
// of the response or all of it. It reads both streams: their subjects do not contain
// ids. A dead letter that is truncated before its id, or is not JSON, is found only by
// its Nats-Msg-Id, and otherwise stays until it expires.
func (e *resultEraser) erase(ctx context.Context, id feedback.Hash) error {
	for _, name := range []string{StreamRewards, StreamDead} {
		ask, cancel := context.WithTimeout(ctx, js.RequestTimeout)
		stream, err := e.js.Stream(ask, name)
		cancel()
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("stream %s: %w", name, js.Explain(err))
		}
		if err := e.eraseFrom(ctx, stream, id); err != nil {
			return err
		}
	}
	return nil
}

// eraseFrom overwrites all messages of an id in a stream of results. An interrupted
// erasure continues where it was when it is requested again.
func (e *resultEraser) eraseFrom(ctx context.Context, stream jetstream.Stream, id feedback.Hash) error {
	info := stream.CachedInfo()
	key := erasure{info.Config.Name, info.Created.UnixNano(), id}
	last, until := info.State.LastSeq, uint64(0)
	if reached, ok := e.erased.Load(key); ok {
		until = reached.(uint64)
	}
	if until > last { // the stream lost its end, and uses these sequences again
		until = 0
	}
	for msg, err := range js.Scan(ctx, stream, js.Range{Subject: ">", First: until + 1, Last: last, MaxBytes: e.maxBytes}) {
		if err != nil {
			return fmt.Errorf("reading stream %s: %w", info.Config.Name, js.Explain(err))
		}
		if _, err := js.Verify(msg.Subject, msg.Header, msg.Data); err != nil {
			e.damage.Report(js.DamagedRecord{Stream: info.Config.Name, Subject: msg.Subject, Sequence: msg.Sequence})
		}
		if feedback.HashOf(responseID(msg)) == id {
			if err := js.Erase(ctx, stream, msg.Sequence); err != nil {
				return err
			}
		}
		e.erased.Store(key, msg.Sequence)
	}
	e.erased.Delete(key)
	return nil
}

// responseID returns the id of the response of a reward or dead letter, as its result has
// it or would have.
func responseID(m js.Message) string {
	return resultID(fieldID(m.Data), m.Header.Get(HeaderMsgID), m.Header.Get(HeaderSequence))
}

// fieldID returns the string in the field "id" of a JSON object, or "". The object may be
// truncated after it.
func fieldID(data []byte) string {
	d := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return ""
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return ""
		}
		if name.String() != "id" {
			if d.SkipValue() != nil {
				return ""
			}
			continue
		}
		if value, err := d.ReadToken(); err == nil && value.Kind() == '"' {
			return value.String()
		}
		return ""
	}
	return ""
}
