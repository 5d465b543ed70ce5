package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"assay/rewardmodel"
	"assay/rewardmodel/wire"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Scorer gives rewards. It is called by many goroutines at once, and is
// expected to return rewardmodel.ErrOverloaded instead of queueing without
// bound, and rewardmodel.ErrClosed or a cancelled context's error when it
// stops; any other error that is no *rewardmodel.InputError counts as a failure
// of the model on this response.
type Scorer interface {
	Score(context.Context, rewardmodel.Request) (rewardmodel.Answer, error)
}

// ErrNotReady says why the NATS side cannot serve now.
var ErrNotReady = errors.New("NATS is not ready")

// Config describes the NATS side of assay: an embedded server, or with Conn.URL
// an external one.
type Config struct {
	Server  ServerConfig // embedded; not used with Conn.URL
	Conn    ConnConfig
	Streams StreamsConfig
	Worker  WorkerConfig
	Service ServiceConfig
}

// Queue is a running NATS side: connection, streams and, once started, the
// service and the worker.
type Queue struct {
	cfg     Config
	log     zerolog.Logger
	metrics *metrics
	server  *Server // nil with an external one
	nc      *nats.Conn
	js      jetstream.JetStream
	labels  *Feedback

	mu      sync.Mutex
	service *service
	worker  *worker
	drained bool
}

// Open starts the embedded server, or connects to the external one, and makes
// the streams exist. ctx bounds that alone. It needs no model yet.
func Open(ctx context.Context, cfg Config, log zerolog.Logger, reg prometheus.Registerer) (*Queue, error) {
	if _, err := cfg.Worker.withDefaults(); err != nil {
		return nil, err
	}
	q := &Queue{cfg: cfg, log: log.With().Str("component", "queue").Logger(), metrics: newMetrics(reg)}
	if err := q.open(ctx); err != nil {
		return nil, errors.Join(err, q.Close(ctx))
	}
	return q, nil
}

// leafPatience is how long JetStream may be nowhere: a leaf node that has just
// started does not know its hub yet.
const leafPatience = 5 * time.Second

func (q *Queue) open(ctx context.Context) (err error) {
	if q.cfg.Conn.URL != "" {
		q.nc, err = Connect(ctx, q.cfg.Conn, q.log)
	} else {
		if q.server, err = StartEmbedded(q.cfg.Server, q.log); err != nil {
			return err
		}
		q.nc, err = q.server.Connect(ctx, q.log)
	}
	if err != nil {
		return err
	}
	if q.js, err = q.jetStream(); err != nil {
		return err
	}
	streams := q.cfg.Streams
	streams.apiLevel2 = hasAPILevel2(q.nc.ConnectedServerVersion())
	began := time.Now()
	again := func(err error) bool {
		absent := errors.Is(err, nats.ErrNoResponders) && q.cfg.Conn.URL != "" && time.Since(began) < leafPatience
		return absent || electing(err)
	}
	err = repeat(ctx, again, func() error {
		err := ensureStreams(ctx, q.js, streams, q.nc.MaxPayload(), q.log)
		if err != nil && again(err) {
			q.log.Warn().Err(err).Msg("JetStream is not ready; trying again")
		}
		return err
	})
	if err != nil {
		return err
	}
	if q.server == nil {
		checkSync(ctx, q.cfg.Conn, q.log)
	}
	// To a server that does not sync before it acknowledges, a batch is more
	// work than its messages: it stages batches on disk, and syncs those.
	batches := q.server == nil || q.cfg.Server.SyncInterval == 0
	q.labels, err = openFeedback(ctx, q.nc, q.js, q.cfg.Streams, batches, q.server.Healthy, q.log, q.metrics)
	return err
}

// jetStream returns what asks the JetStream of our domain.
func (q *Queue) jetStream(opts ...jetstream.JetStreamOpt) (js jetstream.JetStream, err error) {
	if domain := q.cfg.Conn.Domain; domain != "" {
		js, err = jetstream.NewWithDomain(q.nc, domain, opts...)
	} else {
		js, err = jetstream.New(q.nc, opts...)
	}
	if err != nil {
		return nil, fmt.Errorf("JetStream: %w", err)
	}
	return js, nil
}

// Feedback is the durable log of labels. It works from Open to Close, also while
// there is no model.
func (q *Queue) Feedback() *Feedback { return q.labels }

// Conn is the connection, for what else speaks NATS in this process.
func (q *Queue) Conn() *nats.Conn { return q.nc }

// URL is where clients connect.
func (q *Queue) URL() string {
	if q.server != nil {
		return q.server.URL()
	}
	return q.nc.ConnectedUrlRedacted()
}

// Start begins to answer requests and to take responses. Call it once, when
// the scorer has its model.
func (q *Queue) Start(ctx context.Context, scorer Scorer) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.worker != nil || q.drained {
		return errors.New("the queue was started or drained before")
	}
	labels := q.cfg.Service.Labels
	if labels == nil {
		labels = q.labels
	}
	service, err := startService(q.nc, scorer, labels, q.cfg.Service, q.log, q.metrics)
	if err != nil {
		return err
	}
	cfg := q.cfg.Worker
	cfg.domain = q.cfg.Conn.Domain
	worker, err := startWorker(ctx, q.nc, q.js, scorer, cfg, q.log, q.metrics)
	if err != nil {
		return errors.Join(err, service.drain(ctx))
	}
	q.service, q.worker = service, worker
	return nil
}

// SetLimits replaces ServiceConfig.Limits for score requests that come from now
// on. Call it after Start.
func (q *Queue) SetLimits(limits wire.Limits) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.service != nil {
		q.service.limits.Store(&limits)
	}
}

// Ready returns nil when requests are answered and responses are taken: it is
// connected, all streams and the consumer exist, and it is not draining. Other
// errors wrap ErrNotReady.
func (q *Queue) Ready(ctx context.Context) error {
	q.mu.Lock()
	running := q.worker != nil && !q.drained
	q.mu.Unlock()
	if !running {
		return fmt.Errorf("%w: not started, or draining", ErrNotReady)
	}
	if err := q.StreamsReady(ctx); err != nil {
		return err
	}
	if _, err := q.js.Consumer(ctx, StreamResponses, ConsumerScorer); err != nil {
		return fmt.Errorf("%w: consumer %s: %w", ErrNotReady, ConsumerScorer, err)
	}
	return nil
}

// StreamsReady is Ready without the work: it is connected and all streams
// exist. A process that does not score has no more.
func (q *Queue) StreamsReady(ctx context.Context) error {
	if err := q.server.Healthy(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotReady, err)
	}
	if status := q.nc.Status(); status != nats.CONNECTED {
		return fmt.Errorf("%w: the connection is %v", ErrNotReady, status)
	}
	for _, name := range []string{StreamResponses, StreamRewards, StreamDead, StreamEvents, streamState, streamModels} {
		if _, err := q.js.Stream(ctx, name); err != nil {
			return fmt.Errorf("%w: stream %s: %w", ErrNotReady, name, err)
		}
	}
	return q.labels.ready(ctx)
}

// SetJournal sets WorkerConfig.Journal, for a process that knows its file only
// after Open. Call it before Start.
func (q *Queue) SetJournal(path string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.cfg.Worker.Journal = path
}

// Crashing says that this process is about to end because of something that it
// works on: the responses in flight stay in WorkerConfig.Journal, although Drain
// hands them to other processes.
func (q *Queue) Crashing() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.worker != nil {
		q.worker.freezeJournal()
	}
}

// Drain stops taking requests and responses and finishes what is in flight.
// What is not done when ctx ends is answered 503, or handed back for another
// process. Close the scorer after it, and then the queue.
func (q *Queue) Drain(ctx context.Context) error {
	q.mu.Lock()
	service, worker := q.service, q.worker
	again := q.drained
	q.drained = true
	q.mu.Unlock()
	if again || worker == nil {
		return nil
	}
	served := make(chan error, 1)
	go func() { served <- service.drain(ctx) }()
	err := worker.drain(ctx)
	return errors.Join(err, <-served)
}

// Close drains, closes the connection after all is written, and stops the
// embedded server, which it waits for even after ctx ended. Closing again does
// nothing.
func (q *Queue) Close(ctx context.Context) error {
	err := q.Drain(ctx)
	if q.labels != nil {
		q.labels.close()
	}
	if q.nc != nil {
		err = errors.Join(err, drain(ctx, q.nc))
	}
	if q.server != nil {
		err = errors.Join(err, q.server.Shutdown())
	}
	return err
}
