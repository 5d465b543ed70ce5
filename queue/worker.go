package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"
	"time"

	"assay/internal/trace"
	"assay/queue/embedded"
	"assay/queue/internal/dedup"
	"assay/queue/internal/js"
	"assay/rewardmodel"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/xid"
	"github.com/rs/zerolog"
	"golang.org/x/sync/semaphore"
)

// WorkerConfig sets how responses are taken from JetStream. Zero values mean
// the defaults.
type WorkerConfig struct {
	// MaxInFlight is how many responses this process works on at the same time: it
	// scores them, waits to score them, or stores their results. Default 256. The
	// scorer forms its batches from them.
	MaxInFlight int

	// Memory limits the memory of those responses, together with whatever else
	// shares it. When it is exhausted, no more responses are pulled. nil: no limit.
	Memory *rewardmodel.Memory

	// Tracer starts the spans of those responses; nil: none.
	Tracer *trace.Tracer

	// MaxAckPending is how many responses all processes together may have in
	// flight. Default 4096.
	MaxAckPending int

	// AckWait is the time without a heartbeat after which another process takes over
	// a response. Heartbeats are sent three times as often. Default 10 s.
	AckWait time.Duration

	// MaxDeliver is how often the model fails on a response in this process, since its
	// start, before the response becomes a dead letter. Default 5.
	MaxDeliver int

	// RetryBase and RetryMax bound the delay before a response is delivered again:
	// it doubles from RetryBase up to RetryMax. Defaults 500 ms and 30 s.
	RetryBase, RetryMax time.Duration

	// Journal is a file of this process that names the responses in flight. The next
	// process that uses the file learns which responses this one died with. Default
	// none: then a response that kills processes is delivered forever.
	Journal string

	domain string // of JetStream; "" for the domain of the server
	damage *js.Damage
	server *embedded.Server // nil: it is not in this process
}

// The defaults of a WorkerConfig.
const (
	DefaultMaxInFlight   = 256
	DefaultMaxAckPending = 4096
	DefaultAckWait       = 10 * time.Second
	DefaultMaxDeliver    = 5
)

func (c WorkerConfig) withDefaults() (WorkerConfig, error) {
	c.MaxInFlight = cmp.Or(c.MaxInFlight, DefaultMaxInFlight)
	c.MaxAckPending = cmp.Or(c.MaxAckPending, max(DefaultMaxAckPending, c.MaxInFlight))
	c.AckWait = cmp.Or(c.AckWait, DefaultAckWait)
	c.MaxDeliver = cmp.Or(c.MaxDeliver, DefaultMaxDeliver)
	c.RetryBase = cmp.Or(c.RetryBase, 500*time.Millisecond)
	c.RetryMax = cmp.Or(c.RetryMax, 30*time.Second)
	switch {
	case c.MaxInFlight < 1 || c.MaxAckPending < 1 || c.MaxDeliver < 1:
		return c, errors.New("NATS worker: the maximum in flight, of pending acknowledgements and of deliveries must be at least 1")
	case c.AckWait < time.Second:
		return c, fmt.Errorf("NATS worker: an acknowledgement wait of %v is too short for heartbeats; use 1s or more", c.AckWait)
	case c.RetryBase < time.Millisecond || c.RetryMax < c.RetryBase:
		return c, fmt.Errorf("NATS worker: retry delays from %v to %v: the first must be at least 1ms and not above the second", c.RetryBase, c.RetryMax)
	}
	return c, nil
}

const (
	// pullWait is how long one pull waits for messages. A drain lets the last pull
	// end, so that no message in transit is lost.
	pullWait = time.Second

	// pullBytes limits the size of one pull, unless a single message may be larger.
	pullBytes = 64 << 20

	lagInterval = 5 * time.Second // between measurements of the consumer lag
)

// worker turns responses into rewards, as fast as the scorer.
type worker struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	scorer  Scorer
	cfg     WorkerConfig
	log     zerolog.Logger
	metrics *metrics
	results *dedup.Index // rewards and dead letters
	state   *js.KeyValue // what processes share; opened by the first attach
	books   *bookkeeper  // nil with an external server
	retry   js.Backoff   // of responses and results
	id      xid.ID       // of this process, among the holders of suspects

	isolated chan struct{} // has an element while a suspect is scored

	slots *semaphore.Weighted // in responses
	chunk int                 // number of responses that one pull requests
	bytes int64               // and the maximum size of those

	pulling  context.Context // ends when no more responses are pulled
	stop     context.CancelFunc
	crashing context.Context // ends when the process is about to crash, see Queue.MarkCrash
	crash    context.CancelFunc
	working  context.Context // ends when responses in flight must be negatively acknowledged
	abort    context.CancelFunc
	puller   sync.WaitGroup // the loop that starts deliveries
	flight   sync.WaitGroup // the deliveries
	monitor  sync.WaitGroup // the loops that send heartbeats, measure, and keep the books

	first      uint64    // response that was the oldest when it was measured last
	leftover   uint64    // see redeliver
	back       clockBack // of the server of the consumer
	clock      js.Clock  // of the leader of the stream of responses
	mu         sync.Mutex
	inFlight   map[*delivery]struct{}
	failures   map[dedup.Response]int // of the model in this process, on responses that are not completed
	resumeAt   time.Time              // nothing is pulled before: the scorer is overloaded
	quarantine *quarantine            // of the current stream of responses; nil before the first attach

	// Seams for tests: where a crash does the most harm.
	publish func(context.Context, *nats.Msg, ...jetstream.PublishOpt) (*jetstream.PubAck, error)
	ack     func(jetstream.Msg) error
}

// startWorker attaches to the stream of responses and starts to pull them.
func startWorker(ctx context.Context, nc *nats.Conn, jet jetstream.JetStream, scorer Scorer,
	cfg WorkerConfig, log zerolog.Logger, m *metrics) (*worker, error) {
	w, err := newWorker(nc, jet, scorer, cfg, log, m)
	if err != nil {
		return nil, err
	}
	return w, w.start(ctx)
}

func newWorker(nc *nats.Conn, jet jetstream.JetStream, scorer Scorer,
	cfg WorkerConfig, log zerolog.Logger, m *metrics) (*worker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	// A pull is limited only by its count. A server whose consumer is replicated
	// reports that a pull with a limit of bytes is complete before it delivers, and
	// the client would not wait for what follows.
	chunk := max(1, min(int64(cfg.MaxInFlight/4), pullBytes/nc.MaxPayload()))
	w := &worker{nc: nc, js: jet, scorer: scorer, cfg: cfg, log: log, metrics: m,
		results:  dedup.New(jet, cfg.damage, StreamRewards, StreamDead),
		retry:    js.Backoff{Base: cfg.RetryBase, Max: cfg.RetryMax},
		id:       xid.New(),
		isolated: make(chan struct{}, 1),
		slots:    semaphore.NewWeighted(int64(cfg.MaxInFlight)),
		chunk:    int(chunk),
		bytes:    chunk * nc.MaxPayload(),
		inFlight: map[*delivery]struct{}{},
		failures: map[dedup.Response]int{},
		publish:  jet.PublishMsg,
		ack:      jetstream.Msg.Ack,
	}
	w.pulling, w.stop = context.WithCancel(context.Background())
	w.crashing, w.crash = context.WithCancel(context.Background())
	w.working, w.abort = context.WithCancel(context.Background())
	return w, nil
}

func (w *worker) start(ctx context.Context) error {
	var src source
	err := js.RetryWhile(ctx, js.Retryable, func() (err error) { // a replica may start while there is no leader
		src, err = w.attach(ctx, false)
		return err
	})
	if err != nil {
		w.stop()
		w.abort()
		return errors.Join(err, w.closeJournal())
	}
	w.keepLedger()
	w.puller.Go(func() { w.pull(src) })
	w.monitor.Go(func() { w.every(w.cfg.AckWait/3, w.heartbeat) })
	w.monitor.Go(func() { w.every(lagInterval, w.measure) }) // which waits while the results are read, and heartbeats must not
	w.monitor.Go(w.watchBooks)
	return nil
}

// pull pulls responses while there is room for them.
func (w *worker) pull(src source) {
	for failures := uint64(0); w.pulling.Err() == nil; {
		var err error
		if failures > 0 || src.recreated || src.reconnects != w.nc.Stats().Reconnects {
			src, err = w.attach(w.pulling, true)
		}
		if err == nil {
			err = w.pullOnce(&src)
		}
		if err == nil {
			failures = 0
			w.wait(w.untilResume())
			continue
		}
		failures++
		if w.pulling.Err() == nil {
			w.log.Warn().Err(err).Msg("cannot pull responses from JetStream; retrying")
			w.wait(w.retry.Delay(failures))
		}
	}
}

// pullOnce waits for room, and then up to pullWait for responses.
func (w *worker) pullOnce(src *source) error {
	slots := int64(w.chunk) // what is left of what was acquired
	if w.slots.Acquire(w.pulling, slots) != nil {
		return nil // draining
	}
	defer func() { w.slots.Release(slots) }()
	memory := w.cfg.Memory.OpenBuffer() // for the pull, until each response has its own reservation
	defer memory.Close()
	if err := memory.Grow(w.bytes); err != nil {
		return w.cooldownOverloaded(err)
	}
	batch, err := src.consumer.Fetch(w.chunk, jetstream.FetchMaxWait(pullWait))
	if err != nil {
		return err
	}
	for {
		var msg jetstream.Msg
		select {
		case msg = <-batch.Messages():
		case <-w.crashing.Done():
			return nil // what is in transit is delivered again
		}
		if msg == nil {
			return batch.Error()
		}
		d, err := newDelivery(msg, src)
		if err != nil {
			return err
		}
		memory.Shrink(int64(len(msg.Data())))
		d.charge(w.cfg.Memory)
		slots--
		w.track(d)
		w.flight.Go(func() {
			if o := w.process(d); d.deaths > 0 && o.completed() {
				w.forget(w.working, d)
			}
		})
	}
}

// process handles a response and releases its slot and memory.
func (w *worker) process(d *delivery) outcome {
	defer w.slots.Release(1)
	defer d.memory.Close()
	defer w.untrack(d)
	o := w.deliver(w.working, d)
	if o.completed() {
		w.mu.Lock()
		delete(w.failures, d.identity())
		w.mu.Unlock()
	}
	w.metrics.messages.WithLabelValues(string(o)).Inc()
	return o
}

// cooldownOverloaded makes pull wait for memory that requests hold.
func (w *worker) cooldownOverloaded(err error) error {
	if !errors.Is(err, rewardmodel.ErrOverloaded) {
		return err
	}
	w.cooldown(min(describe(err).RetryAfter, w.cfg.RetryMax))
	return nil
}

func (w *worker) track(d *delivery) {
	if d.redelivered() {
		w.metrics.redeliveries.Inc()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight[d] = struct{}{}
	w.metrics.inFlight.Set(float64(len(w.inFlight)))
}

func (w *worker) untrack(d *delivery) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.inFlight, d)
	w.metrics.inFlight.Set(float64(len(w.inFlight)))
}

// wait returns after d, or immediately when draining.
func (w *worker) wait(d time.Duration) {
	if d <= 0 {
		return
	}
	js.Sleep(w.pulling, d)
}

// cooldown keeps pull from pulling more: the scorer is overloaded.
func (w *worker) cooldown(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if until := time.Now().Add(d); until.After(w.resumeAt) {
		w.resumeAt = until
	}
}

func (w *worker) untilResume() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Until(w.resumeAt)
}

// every calls f at intervals until the worker ends.
func (w *worker) every(interval time.Duration, f func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-w.working.Done():
			return
		case <-tick.C:
			f()
		}
	}
}

// heartbeat tells the server that the responses in flight are worked on.
func (w *worker) heartbeat() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for d := range w.inFlight {
		// If this fails, the response completes at this moment, or the next
		// heartbeat is sent when the connection is back.
		_ = d.msg.InProgress()
	}
}

// measure measures how many responses wait, and forgets what is known of those that are
// completed.
func (w *worker) measure() {
	ctx, cancel := context.WithTimeout(w.working, lagInterval)
	defer cancel()
	requested := time.Now()
	consumer, err := w.js.Consumer(ctx, StreamResponses, ConsumerScorer)
	if err != nil {
		return // pull logs it
	}
	info := consumer.CachedInfo()
	w.back.observe(info, requested, time.Now())
	w.metrics.pending.Set(float64(info.NumPending))
	w.metrics.ackPending.Set(float64(info.NumAckPending))
	w.measureStream(ctx, info)
	if info.NumPending == 0 && info.NumAckPending == 0 {
		w.forgetFailures(math.MaxUint64)
		w.results.Clear()
	} else {
		w.forgetFailures(info.AckFloor.Stream + 1)
		w.results.Forget(info.AckFloor.Stream + 1)
	}
}

// forgetFailures forgets the failures on responses before the oldest one that waits, which
// another process has completed.
func (w *worker) forgetFailures(oldest uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.failures, func(r dedup.Response, _ int) bool { return r.Sequence < oldest })
}

// measureStream measures how full the stream of responses is, and how long the oldest
// response has been waiting. A full stream rejects publishers.
func (w *worker) measureStream(ctx context.Context, consumer *jetstream.ConsumerInfo) {
	info, err := w.responsesInfo(ctx)
	if err != nil {
		return
	}
	w.metrics.responses.Set(float64(info.State.Msgs))
	w.metrics.responseBytes.Set(float64(info.State.Bytes))
	w.metrics.responseLimit.Set(float64(max(info.Config.MaxBytes, 0)))
	oldest := time.Duration(0)
	if info.State.Msgs > 0 {
		oldest = info.TimeStamp.Sub(info.State.FirstTime) // both are times of the server
	}
	w.metrics.oldest.Set(max(oldest, 0).Seconds())
	if _, err := w.recreateConsumer(ctx, consumer.NumAckPending, w.back.by(info)); err != nil {
		w.log.Warn().Err(err).Msg("cannot remove the consumer of the responses")
	}
	if w.cfg.server != nil {
		w.redeliver(ctx, info.State, consumer.AckFloor.Stream) // all up to there should be gone
	}
}

// drain pulls no more responses, waits for those in flight, and negatively acknowledges
// those that are not done when ctx ends, so that another process gets them
// immediately.
func (w *worker) drain(ctx context.Context) error {
	w.stop()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		w.puller.Wait() // the last pull may still deliver responses
		w.flight.Wait()
	}()
	defer w.monitor.Wait()
	defer w.abort()
	select {
	case <-finished:
		w.closeBooks()
		return w.closeJournal()
	case <-ctx.Done():
		w.abort()
		<-finished
		return errors.Join(fmt.Errorf("draining NATS responses: %w", context.Cause(ctx)), w.closeJournal())
	}
}
