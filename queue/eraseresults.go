package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"assay/queue/internal/js"
	"assay/rewardmodel/feedback"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go/jetstream"
)

// resultEraser erases the rewards and the dead letters of a response.
type resultEraser struct {
	js       jetstream.JetStream
	maxBytes int // of the messages that wait in memory

	mu sync.Mutex
	// erased is up to which sequence an erasure that was interrupted has read a
	// stream: it continues there when it is requested again.
	erased map[string]uint64
}

func newResultEraser(jet jetstream.JetStream, maxPayload int64) *resultEraser {
	return &resultEraser{js: jet, maxBytes: int(4 * maxPayload), erased: map[string]uint64{}}
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

// eraseFrom overwrites all messages of an id in a stream of results.
func (e *resultEraser) eraseFrom(ctx context.Context, stream jetstream.Stream, id feedback.Hash) error {
	info := stream.CachedInfo()
	key := erasureKey(info, id)
	last, until := info.State.LastSeq, e.progress(key)
	if until > last { // the stream lost its end, and uses these sequences again
		until = 0
	}
	for msg, err := range js.Scan(ctx, stream, js.Range{Subject: ">", First: until + 1, Last: last, MaxBytes: e.maxBytes}) {
		if err != nil {
			return fmt.Errorf("reading stream %s: %w", info.Config.Name, js.Explain(err))
		}
		if feedback.HashOf(responseID(msg)) == id {
			if err := js.Erase(ctx, stream, msg.Sequence); err != nil {
				return err
			}
		}
		e.setProgress(key, msg.Sequence)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.erased, key)
	return nil
}

func erasureKey(stream *jetstream.StreamInfo, id feedback.Hash) string {
	return fmt.Sprint(stream.Config.Name, stream.Created.UnixNano(), id)
}

func (e *resultEraser) progress(key string) uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.erased[key]
}

func (e *resultEraser) setProgress(key string, sequence uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.erased[key] = sequence
}

// responseID returns the id of the response of a reward or dead letter, as its result has
// it or would have.
func responseID(m js.Message) string {
	if id := fieldID(m.Data); id != "" {
		return id
	}
	if id := m.Header.Get(HeaderMsgID); id != "" {
		return id
	}
	if sequence, err := strconv.ParseUint(m.Header.Get(HeaderSequence), 10, 64); err == nil {
		return sequenceID(sequence)
	}
	return ""
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
