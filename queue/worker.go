package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

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
	// MaxInFlight is how many responses this process holds at once: what it
	// scores, waits to score, or stores. Default 256. The scorer makes its
	// batches of them.
	MaxInFlight int

	// Memory bounds what those responses hold, together with whatever else
	// shares it. While it is in use, no more responses are pulled. nil: no bound.
	Memory *rewardmodel.Memory

	// MaxAckPending is how many responses all processes together may hold.
	// Default 4096.
	MaxAckPending int

	// AckWait is after how long without a sign of life another process takes
	// a response over. Signs are given three times as often. Default 10 s.
	AckWait time.Duration

	// MaxDeliver is at which delivery a response on which the model fails is
	// given up and becomes a dead letter. Default 5.
	MaxDeliver int

	// RetryBase and RetryMax bound how long a response rests before it is
	// delivered again: it doubles from the first to the second. Defaults
	// 500 ms and 30 s.
	RetryBase, RetryMax time.Duration

	// Journal is a file of this process that names the responses in flight. The
	// next process that uses it learns which ones this one died with. Default
	// none: then a response that kills processes is delivered forever.
	Journal string

	domain string // of JetStream; "" for that of the server
}

// What a WorkerConfig stands for that does not say.
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
		return c, fmt.Errorf("NATS worker: an acknowledgement wait of %v is too short for signs of life; use 1s or more", c.AckWait)
	case c.RetryBase < time.Millisecond || c.RetryMax < c.RetryBase:
		return c, fmt.Errorf("NATS worker: retry delays from %v to %v: the first must be at least 1ms and not above the second", c.RetryBase, c.RetryMax)
	}
	return c, nil
}

const (
	// pullWait is how long one pull waits for messages. A drain lets the
	// last pull end, so that nothing is lost on the way to us.
	pullWait = time.Second

	// pullBytes bounds what one pull may bring, unless one message may be larger.
	pullBytes = 64 << 20

	lagEvery       = 5 * time.Second
	requestTimeout = 10 * time.Second // of one request to the JetStream API
)

// worker turns responses into rewards, at the pace of the scorer.
type worker struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	scorer  Scorer
	cfg     WorkerConfig
	log     zerolog.Logger
	metrics *metrics
	ledger  *ledger
	id      xid.ID // of this process, among the holders of suspects

	alone chan struct{} // holds a token while a suspect is scored

	slots *semaphore.Weighted // in responses
	chunk int                 // how many responses one pull asks for
	bytes int64               // and how many bytes those may be

	pulling context.Context // ends when no more responses are taken
	stop    context.CancelFunc
	working context.Context // ends when responses in flight are to be handed back
	abort   context.CancelFunc
	puller  sync.WaitGroup // the loop that starts deliveries
	flight  sync.WaitGroup // the deliveries
	tender  sync.WaitGroup // the loop that looks after them

	clock      serverClock // of the leader of the stream of responses
	mu         sync.Mutex
	inFlight   map[*delivery]struct{}
	rest       time.Time   // nothing is pulled before: the scorer is full
	quarantine *quarantine // of the current stream of responses; nil before the first attach

	// Seams for tests: where a crash would hurt most.
	publish func(context.Context, *nats.Msg, ...jetstream.PublishOpt) (*jetstream.PubAck, error)
	ack     func(jetstream.Msg) error
}

// startWorker attaches to the stream of responses and begins to take them.
func startWorker(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, scorer Scorer,
	cfg WorkerConfig, log zerolog.Logger, m *metrics) (*worker, error) {
	w, err := newWorker(nc, js, scorer, cfg, log, m)
	if err != nil {
		return nil, err
	}
	return w, w.start(ctx)
}

func newWorker(nc *nats.Conn, js jetstream.JetStream, scorer Scorer,
	cfg WorkerConfig, log zerolog.Logger, m *metrics) (*worker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	// A pull is bounded by its count alone. A server whose consumer is replicated
	// says that a pull with a limit of bytes is complete before it delivers, and
	// the client would not wait for what comes then.
	chunk := max(1, min(int64(cfg.MaxInFlight/4), pullBytes/nc.MaxPayload()))
	w := &worker{nc: nc, js: js, scorer: scorer, cfg: cfg, log: log, metrics: m,
		ledger:   newLedger(js),
		id:       xid.New(),
		alone:    make(chan struct{}, 1),
		slots:    semaphore.NewWeighted(int64(cfg.MaxInFlight)),
		chunk:    int(chunk),
		bytes:    chunk * nc.MaxPayload(),
		inFlight: map[*delivery]struct{}{},
		publish:  js.PublishMsg,
		ack:      jetstream.Msg.Ack,
	}
	w.pulling, w.stop = context.WithCancel(context.Background())
	w.working, w.abort = context.WithCancel(context.Background())
	return w, nil
}

func (w *worker) start(ctx context.Context) error {
	var src source
	err := repeat(ctx, passing, func() (err error) { // a replica may come while a leader goes
		src, err = w.attach(ctx, false)
		return err
	})
	if err != nil {
		w.stop()
		w.abort()
		return errors.Join(err, w.closeJournal())
	}
	w.puller.Go(func() { w.pull(src) })
	w.tender.Go(w.tend)
	return nil
}

// pull takes responses while there is room for them.
func (w *worker) pull(src source) {
	for failures := uint64(0); w.pulling.Err() == nil; {
		var err error
		if failures > 0 || src.reconnects != w.nc.Stats().Reconnects {
			src, err = w.attach(w.pulling, true)
		}
		if err == nil {
			err = w.pullOnce(src)
		}
		if err == nil {
			failures = 0
			w.wait(w.untilRested())
			continue
		}
		failures++
		if w.pulling.Err() == nil {
			w.log.Warn().Err(err).Msg("cannot take responses from JetStream; trying again")
			w.wait(retryDelay(failures, w.cfg.RetryBase, w.cfg.RetryMax))
		}
	}
}

// pullOnce waits for room, and then for responses, but not for long.
func (w *worker) pullOnce(src source) error {
	slots := int64(w.chunk) // what is left of what was acquired
	if w.slots.Acquire(w.pulling, slots) != nil {
		return nil // draining
	}
	defer func() { w.slots.Release(slots) }()
	memory := w.cfg.Memory.OpenBuffer() // for what comes, until each response has its own
	defer memory.Close()
	if err := memory.Grow(w.bytes); err != nil {
		return w.restOverloaded(err)
	}
	batch, err := src.consumer.Fetch(w.chunk, jetstream.FetchMaxWait(pullWait))
	if err != nil {
		return err
	}
	for msg := range batch.Messages() {
		d, err := newDelivery(msg, src)
		if err != nil {
			return err
		}
		memory.Shrink(int64(len(msg.Data())))
		d.charge(w.cfg.Memory)
		slots--
		w.track(d)
		w.flight.Go(func() {
			if o := w.process(d); d.deaths > 0 && o.settled() {
				w.forget(w.working, d)
			}
		})
	}
	return batch.Error()
}

// process delivers a response and releases what it holds.
func (w *worker) process(d *delivery) outcome {
	defer w.slots.Release(1)
	defer d.memory.Close()
	defer w.untrack(d)
	o := w.deliver(w.working, d)
	w.metrics.messages.WithLabelValues(string(o)).Inc()
	return o
}

// restOverloaded has pull wait for memory that requests hold.
func (w *worker) restOverloaded(err error) error {
	if !errors.Is(err, rewardmodel.ErrOverloaded) {
		return err
	}
	w.restFor(min(describe(err).RetryAfter, w.cfg.RetryMax))
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

// wait returns after d, or at once when draining.
func (w *worker) wait(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-w.pulling.Done():
	}
}

// restFor keeps pull from taking more: the scorer could not take what it has.
func (w *worker) restFor(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if until := time.Now().Add(d); until.After(w.rest) {
		w.rest = until
	}
}

func (w *worker) untilRested() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Until(w.rest)
}

// tend tells the server that the responses in flight are being worked on, and
// the metrics how many wait.
func (w *worker) tend() {
	beat := time.NewTicker(w.cfg.AckWait / 3)
	defer beat.Stop()
	lag := time.NewTicker(lagEvery)
	defer lag.Stop()
	for {
		select {
		case <-w.working.Done():
			return
		case <-beat.C:
			w.beat()
		case <-lag.C:
			w.measure()
		}
	}
}

func (w *worker) beat() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for d := range w.inFlight {
		// What fails here is settled at this moment, or written again when
		// the connection is back.
		_ = d.msg.InProgress()
	}
}

func (w *worker) measure() {
	ctx, cancel := context.WithTimeout(w.working, lagEvery)
	defer cancel()
	consumer, err := w.js.Consumer(ctx, StreamResponses, ConsumerScorer)
	if err != nil {
		return // pull says so already
	}
	info := consumer.CachedInfo()
	w.metrics.pending.Set(float64(info.NumPending))
	w.metrics.ackPending.Set(float64(info.NumAckPending))
	w.measureStream(ctx)
	if info.NumPending == 0 && info.NumAckPending == 0 {
		w.ledger.forget()
	}
}

// measureStream tells how full the stream of responses is, beyond which
// publishers are refused, and how long its oldest one waits.
func (w *worker) measureStream(ctx context.Context) {
	info, err := w.responses(ctx)
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
}

// drain takes no more responses, lets those in flight finish, and hands back
// the ones that are not done when ctx ends, so that another process takes them
// at once.
func (w *worker) drain(ctx context.Context) error {
	w.stop()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		w.puller.Wait() // the last pull may still bring responses
		w.flight.Wait()
	}()
	defer w.tender.Wait()
	defer w.abort()
	select {
	case <-finished:
		return w.closeJournal()
	case <-ctx.Done():
		w.abort()
		<-finished
		return errors.Join(fmt.Errorf("draining NATS responses: %w", context.Cause(ctx)), w.closeJournal())
	}
}
