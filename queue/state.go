package queue

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/xid"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"assay/rewardmodel/retrain"
)

// headerRoom is left for the headers of a message that a server must take.
const headerRoom = 1 << 10

// kvOperation is the header of a value that is none: its key was deleted.
const kvOperation = "KV-Operation"

// state is the key-value bucket ASSAY_STATE. Every value is written by
// compare-and-set, and carries a Nats-Msg-Id by which its writer recognises it
// when the acknowledgement was lost.
type state struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
	values *lastValues
	domain string // of JetStream; "" for that of the server
	log    zerolog.Logger
}

func newState(nc *nats.Conn, js jetstream.JetStream, stream jetstream.Stream, domain string, log zerolog.Logger) *state {
	s := &state{nc: nc, js: js, stream: stream, domain: domain, log: log}
	target := func(subject string) string { return s.subject(strings.TrimPrefix(subject, stateSubject)) }
	s.values = newLastValues(js, stream, target, log)
	return s
}

// subject is where a value is written. Servers of two domains keep the subjects
// of buckets to themselves, and pass on what is sent to a domain by its name.
func (s *state) subject(key string) string {
	if s.domain == "" {
		return stateSubject + key
	}
	return "$JS." + s.domain + ".API." + stateSubject + key
}

// entry is the value of a key. Without one all is zero, but for the revision of
// a key that was deleted.
type entry struct {
	value    []byte // nil: there is none
	revision uint64
	id       string // of the writing
}

// get reads the last value of a key.
func (s *state) get(ctx context.Context, key string) (e entry, err error) {
	msg, err := s.values.read(ctx, stateSubject+key)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return entry{}, nil
	case err != nil:
		return entry{}, fmt.Errorf("reading %s of %s: %w", key, BucketState, err)
	}
	e = entry{revision: msg.Sequence, id: msg.Header.Get(jetstream.MsgIDHeader)}
	if msg.Header != nil && msg.Header.Get(kvOperation) == "" {
		e.value = append([]byte{}, msg.Data...)
	}
	return e, nil
}

// put stores a value if the last one of its key has the given revision, 0 for
// none, and returns the new revision. When somebody else was first, it is
// retrain.ErrChanged. A value of ours whose acknowledgement was lost counts as
// stored.
func (s *state) put(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if limit := s.nc.MaxPayload() - headerRoom; int64(len(value)) > limit {
		return 0, fmt.Errorf("writing %s of %s: %d bytes are more than the %d of a NATS message: %w; raise max_payload of the server",
			key, BucketState, len(value), limit, nats.ErrMaxPayload)
	}
	msg := &nats.Msg{Subject: s.subject(key), Data: value, Header: nats.Header{}}
	sign(stateSubject+key, msg.Header)
	id := xid.New().String()
	msg.Header.Set(jetstream.MsgIDHeader, id)
	var ack *jetstream.PubAck
	err := retry(ctx, func(ctx context.Context) (err error) {
		ack, err = s.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(revision))
		return err
	})
	switch {
	case err == nil:
		s.values.remember(&jetstream.RawStreamMsg{Subject: stateSubject + key, Sequence: ack.Sequence, Header: msg.Header, Data: value})
		return ack.Sequence, nil
	case !wrongSequence(err):
		return 0, fmt.Errorf("writing %s of %s: %w", key, BucketState, err)
	}
	last, err := s.get(ctx, key)
	switch {
	case err != nil:
		return 0, err
	case last.id == id:
		return last.revision, nil
	case revision == 0 && last.value == nil && last.revision > 0: // deleted by hand
		return s.put(ctx, key, value, last.revision)
	}
	return 0, fmt.Errorf("writing %s of %s: %w: it is at revision %d, not %d", key, BucketState, retrain.ErrChanged, last.revision, revision)
}

// wrongSequence tells that a message was refused because the last one of its
// subject is not the one that was named.
func wrongSequence(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// keys returns the keys with a prefix, sorted.
func (s *state) keys(ctx context.Context, prefix string) ([]string, error) {
	subjects, err := subjects(ctx, s.stream, stateSubject+prefix+">")
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", BucketState, err)
	}
	keys := slices.Sorted(maps.Keys(subjects))
	for i := range keys {
		keys[i] = strings.TrimPrefix(keys[i], stateSubject)
	}
	return keys, nil
}

// all returns the values of the keys with a prefix. One that is deleted
// meanwhile is left out.
func (s *state) all(ctx context.Context, prefix string) ([]entry, error) {
	keys, err := s.keys(ctx, prefix)
	if err != nil {
		return nil, err
	}
	entries := make([]entry, len(keys))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for i, key := range keys {
		group.Go(func() (err error) {
			entries[i], err = s.get(ctx, key)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(entries, func(e entry) bool { return e.value == nil }), nil
}

// subjects returns how many messages each subject of a stream has.
func subjects(ctx context.Context, stream jetstream.Stream, filter string) (map[string]uint64, error) {
	var info *jetstream.StreamInfo
	err := retry(ctx, func(ctx context.Context) (err error) {
		info, err = stream.Info(ctx, jetstream.WithSubjectFilter(filter))
		return err
	})
	if err != nil {
		return nil, err
	}
	return info.State.Subjects, nil
}

// load reads the value of a key into a T. Without one it is zero.
func load[T any](ctx context.Context, s *state, key string) (value T, revision uint64, err error) {
	e, err := s.get(ctx, key)
	if err != nil || e.value == nil {
		return value, 0, err
	}
	if err := json.Unmarshal(e.value, &value); err != nil {
		return value, 0, fmt.Errorf("%s of %s: %w", key, BucketState, err)
	}
	return value, e.revision, nil
}

// store writes a T, as put does.
func store[T any](ctx context.Context, s *state, key string, value T, revision uint64) (uint64, error) {
	data, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return 0, fmt.Errorf("%s of %s: %w", key, BucketState, err)
	}
	return s.put(ctx, key, data, revision)
}

// How often, and how patiently, a key that is watched is asked for.
const (
	watchEvery    = time.Second
	watchPatience = 1500 * time.Millisecond
)

// watch yields the value of a key, if there is one, and each later one, until
// ctx ends; none twice, and none after a later one. The server pushes them. The
// key is asked for as well: when the network comes back, a push may wait for
// requests to time out that went into the void.
func (s *state) watch(ctx context.Context, key string) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		ctx, cancel := context.WithCancel(ctx)
		pushed, asked := make(chan entry), make(chan entry)
		var readers sync.WaitGroup
		defer readers.Wait()
		defer cancel()
		readers.Go(func() { s.push(ctx, key, pushed) })
		readers.Go(func() { s.ask(ctx, key, asked) })
		var newest, last uint64 // revisions: of any value, and of a pushed one
		for {
			var e entry
			select {
			case <-ctx.Done():
				return
			case e = <-pushed:
				if e.revision < last {
					newest = 0 // the bucket was removed and made again
				}
				last = e.revision
			case e = <-asked:
			}
			if e.revision <= newest {
				continue
			}
			newest = e.revision
			if e.value != nil && !yield(e) {
				return
			}
		}
	}
}

// push sends the values of a key as the server does.
func (s *state) push(ctx context.Context, key string, to chan<- entry) {
	f := &follower{js: s.js, stream: streamState, filter: stateSubject + key, first: jetstream.DeliverLastPerSubjectPolicy, ahead: stateHistory, log: s.log}
	for msg, err := range f.messages(ctx) {
		if err != nil {
			return // never: nothing bounds the wait
		}
		if !authentic(msg.Subject(), msg.Headers()) {
			continue // ask reports it, and stores the value before it again
		}
		s.values.remember(&jetstream.RawStreamMsg{Subject: msg.Subject(), Sequence: msg.Sequence.Stream, Header: msg.Headers(), Data: msg.Data()})
		e := entry{revision: msg.Sequence.Stream}
		if msg.Headers().Get(kvOperation) == "" {
			e.value = msg.Data()
		}
		select {
		case to <- e:
		case <-ctx.Done():
		}
	}
}

// ask reads a key again and again.
func (s *state) ask(ctx context.Context, key string, to chan<- entry) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		patient, cancel := context.WithTimeout(ctx, watchPatience)
		e, err := s.get(patient, key)
		cancel()
		if err != nil {
			continue // the next time
		}
		select {
		case to <- e:
		case <-ctx.Done():
			return
		}
	}
}
