package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"assay/rewardmodel/feedback"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"
)

const (
	// feedbackWindow is how many records this process publishes at once, over
	// all batches.
	feedbackWindow = 256

	// feedbackAttempt bounds the first attempt to store a record, and each
	// further one may take twice as long. A server that cannot write, as with
	// a full disk, does not answer at all.
	feedbackAttempt = time.Second

	feedbackRetryBase = 50 * time.Millisecond
	feedbackRetryMax  = 2 * time.Second
)

// Feedback is the durable log of labels that people give to responses, in the
// stream ASSAY_FEEDBACK, with an index of it in this process. Any number of
// processes share the stream: a record is stored under the condition that the
// one that it replaces is still the latest of its response and rater, so that
// two of them never both accept the same item. All methods are safe for
// concurrent use.
type Feedback struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	log     zerolog.Logger
	stream  jetstream.Stream
	kept    jetstream.Stream // of scored responses; nil: none are kept
	maxAge  time.Duration    // of records; 0: for ever
	healthy func() error     // says why the embedded server cannot store anything
	metrics *metrics
	slots   *semaphore.Weighted

	mu       sync.Mutex
	index    *feedback.Index
	position uint64        // last sequence of the stream that the index was told of
	current  bool          // it was told of all that there was when it began to follow
	moved    chan struct{} // closed when one of these changes
	changed  chan struct{}

	sweeper sweeper
	erased  sync.Map     // of erasures that did not end: the sequence up to which each is done, by its erasure
	commits chan *commit // of atomic batches; nil: each label is a message of its own
	closing context.Context
	stop    context.CancelFunc // of closing
	done    sync.WaitGroup

	// Seams for tests: where a lost acknowledgement would hurt most.
	publish      func(context.Context, *nats.Msg, ...jetstream.PublishOpt) (*jetstream.PubAck, error)
	publishBatch func(context.Context, []*nats.Msg) (first uint64, err error)
}

// openFeedback begins to follow the stream of feedback, which exists. Batches
// is whether labels are stored in atomic batches where the stream allows it.
func openFeedback(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, streams StreamsConfig, batches bool,
	healthy func() error, log zerolog.Logger, m *metrics) (*Feedback, error) {
	f := &Feedback{nc: nc, js: js, log: log, healthy: healthy, metrics: m,
		slots:        semaphore.NewWeighted(feedbackWindow),
		index:        feedback.NewIndex(),
		moved:        make(chan struct{}),
		changed:      make(chan struct{}, 1),
		sweeper:      newSweeper(),
		publish:      js.PublishMsg,
		publishBatch: func(ctx context.Context, msgs []*nats.Msg) (uint64, error) { return publishAtomic(ctx, nc, msgs) },
		maxAge:       streams.FeedbackMaxAge,
	}
	var err error
	if f.stream, err = js.Stream(ctx, StreamFeedback); err != nil {
		return nil, fmt.Errorf("stream %s: %w", StreamFeedback, explain(err))
	}
	if streams.KeepScored > 0 {
		if f.kept, err = js.Stream(ctx, StreamScored); err != nil {
			return nil, fmt.Errorf("stream %s: %w", StreamScored, explain(err))
		}
	}
	f.closing, f.stop = context.WithCancel(context.Background())
	if f.stream.CachedInfo().Config.AllowAtomicPublish && batches {
		f.commits = make(chan *commit)
		f.done.Go(f.commitAll)
	}
	f.done.Go(func() { f.follow(f.closing) })
	f.done.Go(func() { f.sweep(f.closing) })
	return f, nil
}

// close stops to follow the stream.
func (f *Feedback) close() {
	f.stop()
	f.done.Wait()
}

// Index returns what this process knows of the stream. It is another one after
// the stream was made anew, or records came of age: ask for it each time.
func (f *Feedback) Index() *feedback.Index {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.index
}

// Changed returns a channel that has a value after the index changed: one, no
// matter how often. It is for one receiver.
func (f *Feedback) Changed() <-chan struct{} { return f.changed }

// CaughtUp returns when the index holds all that the stream holds at this
// moment. Its error is that of ctx, or wraps feedback.ErrUnavailable.
func (f *Feedback) CaughtUp(ctx context.Context) error {
	ask, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	info, err := f.stream.Info(ask)
	if err != nil {
		return unavailable(ctx, fmt.Errorf("stream %s: %w", StreamFeedback, explain(err)))
	}
	return f.await(ctx, info.State.LastSeq)
}

// await returns when the index was told of all until a sequence.
func (f *Feedback) await(ctx context.Context, sequence uint64) error {
	for {
		f.mu.Lock()
		moved, reached := f.moved, f.current && f.position >= sequence
		f.mu.Unlock()
		if reached {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return unavailable(ctx, errors.New("the index of the feedback is still being read"))
		case <-time.After(time.Second):
			// The message of that sequence may have been erased before it
			// came: then the last one that there is counts.
			if last, err := f.lastThere(ctx); err == nil {
				sequence = min(sequence, last)
			}
		}
	}
}

// lastThere is the sequence of the last message that is not deleted.
func (f *Feedback) lastThere(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	msg, err := lastMessage(ctx, f.stream, SubjectFeedback+".>")
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return msg.Sequence, nil
}

// notify tells who waits that position, current or the index changed. The
// lock is held.
func (f *Feedback) notify() {
	close(f.moved)
	f.moved = make(chan struct{})
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// ready returns nil when the streams exist.
func (f *Feedback) ready(ctx context.Context) error {
	for _, stream := range []jetstream.Stream{f.stream, f.kept} {
		if stream == nil {
			continue
		}
		if _, err := stream.Info(ctx); err != nil {
			return fmt.Errorf("%w: stream %s: %w", ErrNotReady, stream.CachedInfo().Config.Name, err)
		}
	}
	return nil
}

// unavailable wraps err as something that passes, unless it is the caller who
// left.
func unavailable(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", feedback.ErrUnavailable, err)
}
