package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"assay/rewardmodel/feedback"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go/jetstream"
)

// removeResults overwrites the rewards and the dead letters of an id, which hold
// a sentence of the response or all of it, and the kept response that another
// process may have stored. It reads both streams: their subjects do not name ids.
// A dead letter that is cut off before its id, or is not JSON, is only found by
// its Nats-Msg-Id, and otherwise goes by age.
func (f *Feedback) removeResults(ctx context.Context, id feedback.Hash) error {
	if f.kept == nil {
		if err := f.inStream(ctx, StreamScored, func(s jetstream.Stream) error {
			return overwrite(ctx, s, scoredSubject(id))
		}); err != nil {
			return err
		}
	}
	for _, name := range []string{StreamRewards, StreamDead} {
		if err := f.inStream(ctx, name, func(s jetstream.Stream) error { return f.removeFrom(ctx, s, id) }); err != nil {
			return err
		}
	}
	return nil
}

// inStream runs do with a stream, if it exists.
func (f *Feedback) inStream(ctx context.Context, name string, do func(jetstream.Stream) error) error {
	ask, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := f.js.Stream(ask, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", name, explain(err))
	}
	return do(stream)
}

// erasure is what removeFrom does to a stream, which its name and time of
// creation identify.
type erasure struct {
	stream  string
	created int64
	id      feedback.Hash
}

// removeFrom overwrites all messages of an id in a stream of results. One that
// does not end in time continues where it was when it is requested again.
func (f *Feedback) removeFrom(ctx context.Context, stream jetstream.Stream, id feedback.Hash) error {
	info := stream.CachedInfo()
	key := erasure{info.Config.Name, info.Created.UnixNano(), id}
	last, until := info.State.LastSeq, uint64(0)
	if reached, ok := f.erased.Load(key); ok {
		until = reached.(uint64)
	}
	if until > last { // the stream lost its end, and uses these sequences again
		until = 0
	}
	for msg, err := range f.scan(ctx, stream, ">", until+1, last) {
		if err != nil {
			return err
		}
		if feedback.HashOf(msg.responseID()) == id {
			if err := overwriteMessage(ctx, stream, msg.sequence); err != nil {
				return err
			}
		}
		f.erased.Store(key, msg.sequence)
	}
	f.erased.Delete(key)
	return nil
}

// responseID is the id of the response of a reward or dead letter, as its result
// has it or would have.
func (m message) responseID() string {
	return resultID(fieldID(m.data), m.header.Get(HeaderMsgID), m.header.Get(HeaderSequence))
}

// fieldID is the text of the field "id" of a JSON object, or "". The object may
// be cut off after it.
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
