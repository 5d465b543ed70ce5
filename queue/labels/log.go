// Package labels is the durable log of the labels that raters give to responses:
// the stream ASSAY_FEEDBACK with an in-memory index, and the scored responses that
// labels may refer to by id, in ASSAY_SCORED.
//
// Any number of processes share the streams. A label is a message on a subject made
// of the hashes of the response's id and of the rater. The stream keeps the last
// message of each subject, so a correction replaces what it corrects.
package labels

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"assay/queue/internal/js"
	"assay/rewardmodel/feedback"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"
)

// maxPublishing is how many records a process publishes at the same time, over all
// batches.
const maxPublishing = 256

// Config sets up a Log. Items and Panics are required.
type Config struct {
	MaxAge     time.Duration // of labels, checked every hour or more often; 0: they are kept forever
	KeepScored bool          // keep scored responses in ASSAY_SCORED, which exists
	Batches    bool          // store labels in atomic batches where the stream allows it
	// Healthy returns why the server cannot store anything, or nil. nil: always.
	Healthy func() error
	// EraseResults erases what other streams keep of a response, by the hash of
	// its id. nil: nothing.
	EraseResults func(ctx context.Context, id feedback.Hash) error
	Items        *prometheus.CounterVec // received, by outcome and label; see labelValues
	Panics       prometheus.Counter     // while a message of the stream was read
	State        *js.KeyValue           // keeps the extent of the stream; nil: it is not kept
	Damage       *js.Damage             // gets the damaged records; nil: they are only ignored
	Domain       string                 // of JetStream; "" for the domain of the server
	Log          zerolog.Logger
}

// Log is the durable log of labels, with an index of it in this process. A record is
// stored under the condition that the record that it replaces is still the last of
// its response and rater, so that two processes never both accept the same item. All
// methods are safe for concurrent use.
type Log struct {
	cfg    Config
	nc     *nats.Conn
	js     jetstream.JetStream
	log    zerolog.Logger
	stream jetstream.Stream
	scored jetstream.Stream // nil: scored responses are not kept
	slots  *semaphore.Weighted

	mu        sync.Mutex
	index     *feedback.Index
	position  uint64        // last sequence of the stream that the index has read
	current   bool          // the index has read all that the stream had when the indexer started
	erased    int           // number of damaged records that were erased before the index was read
	confirmed uint64        // largest sequence that the server has acknowledged to this process
	moved     chan struct{} // closed when one of these changes

	erasures pendingErasures
	commits  chan *commit // of atomic batches; nil: each label is a separate message
	closing  context.Context
	stop     context.CancelFunc // of closing
	done     sync.WaitGroup
	appended atomic.Pointer[func([]feedback.Entry)]

	// Seams for tests: where a lost acknowledgement does the most harm.
	publish      func(context.Context, *nats.Msg, ...jetstream.PublishOpt) (*jetstream.PubAck, error)
	publishBatch func(context.Context, []*nats.Msg) (first uint64, err error)
}

// Open starts to follow the stream of labels, which exists.
func Open(ctx context.Context, nc *nats.Conn, jet jetstream.JetStream, cfg Config) (*Log, error) {
	if cfg.Healthy == nil {
		cfg.Healthy = func() error { return nil }
	}
	l := &Log{cfg: cfg, nc: nc, js: jet, log: cfg.Log,
		slots:        semaphore.NewWeighted(maxPublishing),
		index:        feedback.NewIndex(),
		moved:        make(chan struct{}),
		erasures:     newPendingErasures(),
		publish:      jet.PublishMsg,
		publishBatch: func(ctx context.Context, msgs []*nats.Msg) (uint64, error) { return js.PublishBatch(ctx, nc, msgs) },
	}
	for _, values := range labelValues() {
		cfg.Items.WithLabelValues(values...) // an increase of a series that does not exist yet shows in no query
	}
	var err error
	if l.stream, err = jet.Stream(ctx, StreamFeedback); err != nil {
		return nil, fmt.Errorf("stream %s: %w", StreamFeedback, js.Explain(err))
	}
	if cfg.KeepScored {
		if l.scored, err = jet.Stream(ctx, StreamScored); err != nil {
			return nil, fmt.Errorf("stream %s: %w", StreamScored, js.Explain(err))
		}
	}
	l.closing, l.stop = context.WithCancel(context.Background())
	if l.stream.CachedInfo().Config.AllowAtomicPublish && cfg.Batches {
		l.commits = make(chan *commit)
		l.done.Go(l.commitLoop)
	}
	l.done.Go(func() { l.follow(l.closing) })
	l.done.Go(func() { l.eraseLoop(l.closing) })
	if l.keepsExtent() {
		l.done.Go(func() { l.watchExtent(l.closing) })
	}
	return l, nil
}

// Close stops following the stream, and waits for it.
func (l *Log) Close() {
	l.closeExtent()
	l.stop()
	l.done.Wait()
}

// OnAppend registers a function that Append calls with the items that it accepted.
// The function must not block. A later call replaces the function.
func (l *Log) OnAppend(hook func(accepted []feedback.Entry)) { l.appended.Store(&hook) }

// Index returns what this process knows of the stream. Call it again each time:
// another index replaces it after the stream was created again, or records expired.
func (l *Log) Index() *feedback.Index {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.index
}

// CaughtUp returns when the index has read all that the stream has at the time of
// the call. Its error is that of ctx, or wraps feedback.ErrUnavailable.
func (l *Log) CaughtUp(ctx context.Context) error {
	info, err := l.info(ctx)
	if err != nil {
		return unavailable(ctx, fmt.Errorf("stream %s: %w", StreamFeedback, js.Explain(err)))
	}
	return l.await(ctx, info.State.LastSeq)
}

// info returns the state of the stream.
func (l *Log) info(ctx context.Context) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, js.RequestTimeout)
	defer cancel()
	return l.stream.Info(ctx)
}

// await returns when the index has read the stream up to a sequence.
func (l *Log) await(ctx context.Context, sequence uint64) error {
	for {
		l.mu.Lock()
		moved, reached := l.moved, l.current && l.position >= sequence && l.erased == l.erasedRecords()
		l.mu.Unlock()
		if reached {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return unavailable(ctx, errors.New("the index of the feedback is still being read"))
		case <-time.After(time.Second):
			// The message of that sequence may have been erased before it was
			// read: then the last message that exists is the end.
			if last, err := l.lastSequence(ctx); err == nil {
				sequence = min(sequence, last)
			}
		}
	}
}

// erasedRecords is the number of damaged records that were erased. An index that was read
// before may still have them.
func (l *Log) erasedRecords() int { return len(l.cfg.Damage.Erased(StreamFeedback)) }

// lastSequence is the sequence of the last message that is not deleted.
func (l *Log) lastSequence(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, js.RequestTimeout)
	defer cancel()
	msg, err := js.LastMessage(ctx, l.stream, SubjectFeedback+".>")
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return msg.Sequence, nil
}

// notify wakes up await. The caller holds the lock.
func (l *Log) notify() {
	close(l.moved)
	l.moved = make(chan struct{})
}

// Ready returns nil if the streams exist.
func (l *Log) Ready(ctx context.Context) error {
	for _, stream := range []jetstream.Stream{l.stream, l.scored} {
		if stream == nil {
			continue
		}
		if _, err := stream.Info(ctx); err != nil {
			return fmt.Errorf("stream %s: %w", stream.CachedInfo().Config.Name, err)
		}
	}
	return nil
}

// backoff is the delay between attempts to reach the server.
func backoff() js.Backoff { return js.Backoff{Base: 50 * time.Millisecond, Max: 2 * time.Second} }

// unavailable wraps err as an error that passes, unless the caller canceled.
func unavailable(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", feedback.ErrUnavailable, err)
}
