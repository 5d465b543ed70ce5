package js

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/xid"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
)

// ErrChanged is returned when a key no longer has the revision that a write expects:
// another writer was first.
var ErrChanged = errors.New("another writer changed it")

// HeaderReserve is the part of the maximum message size of the server, in bytes, that
// is reserved for the subject and headers of a message.
const HeaderReserve = 1 << 10

// KeyValue is a key-value bucket. Every value is written by compare-and-set, and
// carries a Nats-Msg-Id by which its writer recognizes it when the acknowledgement
// was lost.
type KeyValue struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	bucket string
	values *LastValues
	stream jetstream.Stream
	domain string // of JetStream; "" for the domain of the server
	log    zerolog.Logger
}

// NewKeyValue returns a bucket whose stream exists. domain is that of JetStream, ""
// for the domain of the server. damage gets the damaged values.
func NewKeyValue(nc *nats.Conn, jet jetstream.JetStream, stream jetstream.Stream, domain string, damage *Damage, log zerolog.Logger) *KeyValue {
	kv := &KeyValue{nc: nc, js: jet, bucket: strings.TrimPrefix(stream.CachedInfo().Config.Name, "KV_"), stream: stream, domain: domain, log: log}
	target := func(subject string) string { return kv.target(strings.TrimPrefix(subject, kv.subject(""))) }
	kv.values = NewLastValues(jet, stream, target, damage, log)
	return kv
}

// subject is where the value of a key is stored.
func (kv *KeyValue) subject(key string) string { return "$KV." + kv.bucket + "." + key }

// target is the subject to which a value is published. Servers of different domains do
// not share the subjects of buckets, but forward messages that are addressed to a domain.
func (kv *KeyValue) target(key string) string {
	if kv.domain == "" {
		return kv.subject(key)
	}
	return "$JS." + kv.domain + ".API." + kv.subject(key)
}

// Entry is the value of a key. Without a value all fields are zero, except the
// revision of a key that was deleted.
type Entry struct {
	Value    []byte // nil: no value
	Revision uint64
	id       string // Nats-Msg-Id of the write
}

// Get returns the last value of a key. Its error wraps ErrDamaged if that is damaged:
// an earlier value would be another state.
func (kv *KeyValue) Get(ctx context.Context, key string) (e Entry, err error) {
	msg, err := kv.values.Read(ctx, kv.subject(key))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return Entry{}, nil
	case err != nil:
		return Entry{}, fmt.Errorf("reading %s of %s: %w", key, kv.bucket, err)
	}
	e = Entry{Revision: msg.Sequence, id: msg.Header.Get(jetstream.MsgIDHeader)}
	if msg.Header != nil && msg.Header.Get(headerKVOperation) == "" {
		e.Value = append([]byte{}, msg.Data...)
	}
	return e, nil
}

// Put stores a value if the last one of its key has the given revision, 0 for
// none, and returns the new revision. Its error wraps ErrChanged if another writer
// was first. A value whose acknowledgement was lost counts as stored.
func (kv *KeyValue) Put(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if limit := kv.nc.MaxPayload() - HeaderReserve; int64(len(value)) > limit {
		return 0, fmt.Errorf("writing %s of %s: %d bytes are more than the %d of a NATS message: %w; raise max_payload of the server",
			key, kv.bucket, len(value), limit, nats.ErrMaxPayload)
	}
	msg := &nats.Msg{Subject: kv.target(key), Data: value, Header: nats.Header{}}
	id := xid.New().String()
	msg.Header.Set(jetstream.MsgIDHeader, id)
	Seal(kv.subject(key), msg.Header, value)
	var ack *jetstream.PubAck
	err := Retry(ctx, func(ctx context.Context) (err error) {
		ack, err = kv.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(revision))
		return err
	})
	switch {
	case err == nil:
		kv.values.Remember(&jetstream.RawStreamMsg{Subject: kv.subject(key), Sequence: ack.Sequence, Header: msg.Header, Data: value})
		return ack.Sequence, nil
	case !WrongSequence(err):
		return 0, fmt.Errorf("writing %s of %s: %w", key, kv.bucket, err)
	}
	last, err := kv.Get(ctx, key)
	switch {
	case err != nil:
		return 0, err
	case last.id == id:
		return last.Revision, nil
	case revision == 0 && last.Value == nil && last.Revision > 0: // deleted by an operator
		return kv.Put(ctx, key, value, last.Revision)
	}
	return 0, fmt.Errorf("writing %s of %s: %w: it is at revision %d, not %d", key, kv.bucket, ErrChanged, last.Revision, revision)
}

// keys returns the keys with a prefix, sorted.
func (kv *KeyValue) keys(ctx context.Context, prefix string) ([]string, error) {
	subjects, err := SubjectCounts(ctx, kv.stream, kv.subject(prefix)+">")
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", kv.bucket, err)
	}
	keys := slices.Sorted(maps.Keys(subjects))
	for i := range keys {
		keys[i] = strings.TrimPrefix(keys[i], kv.subject(""))
	}
	return keys, nil
}

// All returns the values of the keys with a prefix. It skips keys that are deleted
// in the meantime, and damaged values.
func (kv *KeyValue) All(ctx context.Context, prefix string) ([]Entry, error) {
	keys, err := kv.keys(ctx, prefix)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(keys))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i, key := range keys {
		group.Go(func() (err error) {
			entries[i], err = kv.Get(ctx, key)
			if errors.Is(err, ErrDamaged) { // reported
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(entries, func(e Entry) bool { return e.Value == nil }), nil
}

// Load reads the value of a key into a T. Without a value it returns the zero T.
func Load[T any](ctx context.Context, kv *KeyValue, key string) (value T, revision uint64, err error) {
	e, err := kv.Get(ctx, key)
	if err != nil || e.Value == nil {
		return value, 0, err
	}
	if err := json.Unmarshal(e.Value, &value); err != nil {
		return value, 0, fmt.Errorf("%s of %s: %w", key, kv.bucket, err)
	}
	return value, e.Revision, nil
}

// Store writes a T, as KeyValue.Put does.
func Store[T any](ctx context.Context, kv *KeyValue, key string, value T, revision uint64) (uint64, error) {
	data, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return 0, fmt.Errorf("%s of %s: %w", key, kv.bucket, err)
	}
	return kv.Put(ctx, key, data, revision)
}
