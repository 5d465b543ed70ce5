package js

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	pollInterval  = time.Second // between reads of a watched key
	pollTimeout   = 1500 * time.Millisecond
	watchPrefetch = 8 // values that a watcher buffers
)

// Watch yields the value of a key, if there is one, and each later one, until ctx
// ends; none twice, and none after a later one. The server pushes the values.
// Watch also polls the key: after a network outage, a push may have to wait until
// lost requests time out.
func (kv *KeyValue) Watch(ctx context.Context, key string) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		ctx, cancel := context.WithCancel(ctx)
		pushed, polled := make(chan Entry), make(chan Entry)
		var readers sync.WaitGroup
		defer readers.Wait()
		defer cancel()
		readers.Go(func() { kv.push(ctx, key, pushed) })
		readers.Go(func() { kv.poll(ctx, key, polled) })
		var newest, last uint64 // revisions: of any value, and of a pushed one
		for {
			var e Entry
			select {
			case <-ctx.Done():
				return
			case e = <-pushed:
				if e.Revision < last {
					newest = 0 // the bucket was deleted and created again
				}
				last = e.Revision
			case e = <-polled:
			}
			if e.Revision <= newest {
				continue
			}
			newest = e.Revision
			if e.Value != nil && !yield(e) {
				return
			}
		}
	}
}

// push sends the values of a key as the server pushes them.
func (kv *KeyValue) push(ctx context.Context, key string, to chan<- Entry) {
	f := &Follower{JetStream: kv.js, Stream: kv.stream.CachedInfo().Config.Name, Filter: kv.subject(key),
		Start: jetstream.DeliverLastPerSubjectPolicy, Prefetch: watchPrefetch, Log: kv.log}
	for msg, err := range f.Messages(ctx) {
		if err != nil {
			return // never: without OnIdle there is no error
		}
		_, err = Verify(msg.Subject(), msg.Headers(), msg.Data())
		if err != nil || !Authentic(msg.Subject(), msg.Headers()) {
			continue // poll reports it, and restores the value before it
		}
		kv.values.Remember(&jetstream.RawStreamMsg{Subject: msg.Subject(), Sequence: msg.Sequence.Stream, Header: msg.Headers(), Data: msg.Data()})
		e := Entry{Revision: msg.Sequence.Stream}
		if msg.Headers().Get(headerKVOperation) == "" {
			e.Value = msg.Data()
		}
		select {
		case to <- e:
		case <-ctx.Done():
		}
	}
}

// poll reads a key at intervals.
func (kv *KeyValue) poll(ctx context.Context, key string, to chan<- Entry) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		try, cancel := context.WithTimeout(ctx, pollTimeout)
		e, err := kv.Get(try, key)
		cancel()
		if err != nil {
			continue // until the next tick
		}
		select {
		case to <- e:
		case <-ctx.Done():
			return
		}
	}
}
