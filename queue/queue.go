package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"assay/queue/embedded"
	"assay/queue/internal/js"
	"assay/queue/labels"
	"assay/queue/registry"
	"assay/rewardmodel"
	"assay/rewardmodel/wire"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Scorer computes rewards. Score is called concurrently. It must return
// rewardmodel.ErrOverloaded instead of queueing without bound, and rewardmodel.ErrClosed
// or the error of a canceled context when it stops; any other error that is not a
// *rewardmodel.InputError counts as a failure of the model on this response.
type Scorer interface {
	Score(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error)
}

// ErrNotReady reports that the NATS side cannot serve now.
var ErrNotReady = errors.New("NATS is not ready")

// SettingError reports that a field of ConnConfig or embedded.Config is invalid, or cannot be used.
type SettingError struct {
	Field string // such as "URL" or "DataDir"
	Err   error
}

func (e *SettingError) Error() string { return "NATS setting " + e.Field + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *SettingError) Unwrap() error { return e.Err }

// Config configures the NATS side of assay: an embedded server, or with Conn.URL a
// connection to an external one.
type Config struct {
	Server  embedded.Config // not used with Conn.URL
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
	server  *embedded.Server // nil with an external one
	nc      *nats.Conn
	js      jetstream.JetStream
	labels  *labels.Log
	damage  *js.Damage
	stop    context.CancelFunc // of the goroutines of Open
	running sync.WaitGroup

	starting sync.WaitGroup // the call of Start

	mu        sync.Mutex
	stopStart context.CancelFunc // of a call of Start; nil before, and after it failed
	service   *service
	worker    *worker
	crashing  bool // see MarkCrash
	drained   bool
}

// Open starts the embedded server, or connects to the external one, and creates the
// streams. ctx applies only to Open. It needs no model yet.
func Open(ctx context.Context, cfg Config, log zerolog.Logger, reg prometheus.Registerer) (*Queue, error) {
	if _, err := cfg.Worker.withDefaults(); err != nil {
		return nil, err
	}
	q := &Queue{cfg: cfg, log: log.With().Str("component", "queue").Logger(), metrics: newMetrics(reg)}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	q.stop = stop
	q.damage = js.NewDamage(q.metrics.damaged, q.log)
	if err := q.open(ctx); err != nil {
		return nil, errors.Join(err, q.Close(ctx))
	}
	if q.server == nil {
		replied := askLeader(ctx, q.js) == nil // now, since the server may be cut off from the others at any time from here on
		q.running.Go(func() { leaveIsolatedServers(background, q.nc, q.js, replied, q.log) })
	}
	return q, nil
}

// leafTimeout is how long JetStream may be missing: a leaf node that has just started
// does not know its hub yet.
const leafTimeout = 5 * time.Second

func (q *Queue) open(ctx context.Context) (err error) {
	if q.cfg.Conn.URL != "" {
		q.nc, err = Connect(ctx, q.cfg.Conn, q.log)
	} else {
		if err := q.startServer(); err != nil {
			return err
		}
		q.nc, err = ConnConfig{Token: q.cfg.Server.Token, inProcess: q.server}.dial(ctx, q.log)
	}
	if err != nil {
		return err
	}
	if q.js, err = js.New(q.nc, q.cfg.Conn.Domain); err != nil {
		return err
	}
	if q.server != nil {
		q.js = js.Guard(q.js, q.server)
	}
	streams := q.cfg.Streams
	streams.apiLevel2 = hasAPILevel2(q.nc.ConnectedServerVersion())
	start := time.Now()
	again := func(err error) bool {
		absent := errors.Is(err, nats.ErrNoResponders) && q.cfg.Conn.URL != "" && time.Since(start) < leafTimeout
		return absent || js.Leaderless(err)
	}
	err = js.RetryWhile(ctx, again, func() error {
		err := ensureStreams(ctx, q.js, streams, q.nc.MaxPayload(), q.log)
		if err != nil && again(err) {
			q.log.Warn().Err(err).Msg("JetStream is not ready; retrying")
		}
		return err
	})
	if err != nil {
		return err
	}
	if q.server == nil {
		checkSync(ctx, q.cfg.Conn, q.log)
	}
	for _, stream := range damageable() {
		if _, err := js.ReportLost(ctx, q.nc, q.cfg.Conn.Domain, stream, q.damage); err != nil {
			q.log.Debug().Err(err).Msg("cannot read what the server has lost")
		}
	}
	var state jetstream.Stream
	err = js.Retry(ctx, func(ctx context.Context) (err error) {
		state, err = q.js.Stream(ctx, registry.StreamState)
		return err
	})
	if err != nil {
		return fmt.Errorf("stream %s: %w", registry.StreamState, js.Explain(err))
	}
	q.labels, err = labels.Open(ctx, q.nc, q.js, labels.Config{
		MaxAge:     q.cfg.Streams.FeedbackMaxAge,
		KeepScored: q.cfg.Streams.KeepScored > 0,
		// For a server that does not sync before it acknowledges, a batch is more
		// work than its messages: it stages batches on disk, and syncs those.
		Batches:      q.server == nil || q.cfg.Server.SyncInterval == 0,
		Healthy:      q.server.Healthy,
		EraseResults: newResultEraser(q.js, q.nc.MaxPayload(), q.damage).erase,
		Items:        q.metrics.feedback,
		Panics:       q.metrics.panics.WithLabelValues(kindLabel),
		State:        js.NewKeyValue(q.nc, q.js, state, q.cfg.Conn.Domain, q.damage, q.log),
		Damage:       q.damage,
		Domain:       q.cfg.Conn.Domain,
		Log:          q.log,
	})
	return err
}

// startServer starts the embedded server. An error that names one of its settings is a *SettingError.
func (q *Queue) startServer() error {
	server, err := embedded.Start(q.cfg.Server, q.damage, q.log)
	var invalid *embedded.ConfigError
	if errors.As(err, &invalid) {
		return &SettingError{invalid.Field, invalid.Err}
	}
	q.server = server
	return err
}

// Labels returns the durable log of labels. It works from Open to Close, even before Start.
func (q *Queue) Labels() *labels.Log { return q.labels }

// OpenRegistry opens the registry of models.
func (q *Queue) OpenRegistry(ctx context.Context) (*registry.Registry, error) {
	return registry.Open(ctx, q.nc, q.js, q.cfg.Conn.Domain, q.damage, q.log)
}

// DamagedRecord is a stored record that is not as assay wrote it.
type DamagedRecord = js.DamagedRecord

// OnDamage calls hook once with each damaged record that this process reads, also with
// those that it has read. hook must not block.
func (q *Queue) OnDamage(hook func(DamagedRecord)) { q.damage.OnReport(hook) }

// Conn returns the connection, for other uses of NATS in this process.
func (q *Queue) Conn() *nats.Conn { return q.nc }

// URL returns the address for clients.
func (q *Queue) URL() string {
	if q.server != nil {
		return q.server.URL()
	}
	return q.nc.ConnectedUrlRedacted()
}

// Start starts the service and the worker. Call it once, when the scorer has its model. While
// the servers have no leader, it waits until there is one, ctx ends, or Drain is called.
func (q *Queue) Start(ctx context.Context, scorer Scorer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	service, cfg, err := q.beginStart(stop, scorer)
	if err != nil {
		return err
	}
	defer q.starting.Done()
	worker, err := startWorker(ctx, q.nc, q.js, scorer, cfg, q.log, q.metrics) // without the lock: Ready and MarkCrash do not wait for it
	if err != nil {
		err = errors.Join(err, service.drain(ctx))
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		q.service, q.stopStart = nil, nil
		return err
	}
	q.worker = worker
	if q.crashing {
		worker.markCrash()
	}
	return nil
}

// beginStart starts the service, and returns the settings of the worker. starting ends when the
// worker is started too.
func (q *Queue) beginStart(stop context.CancelFunc, scorer Scorer) (*service, WorkerConfig, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	cfg := q.cfg.Worker
	cfg.domain, cfg.damage, cfg.server = q.cfg.Conn.Domain, q.damage, q.server
	if q.stopStart != nil || q.drained {
		return nil, cfg, errors.New("the queue was started or drained before")
	}
	service, err := startService(q.nc, scorer, q.labels, q.cfg.Service, q.log, q.metrics)
	if err != nil {
		return nil, cfg, err
	}
	q.service, q.stopStart = service, stop
	q.starting.Add(1)
	return service, cfg, nil
}

// SetLimits replaces ServiceConfig.Limits for score requests from now on. Call it after
// Start.
func (q *Queue) SetLimits(limits wire.Limits) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.service != nil {
		q.service.limits.Store(&limits)
	}
}

// Ready returns nil if the service and the worker run: it is connected, all streams and
// the consumer exist, and it is not draining. Other errors wrap ErrNotReady.
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

// StreamsReady is Ready for a process that does not score: it is connected and all
// streams exist.
func (q *Queue) StreamsReady(ctx context.Context) error {
	if err := q.server.Healthy(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotReady, err)
	}
	if status := q.nc.Status(); status != nats.CONNECTED {
		return fmt.Errorf("%w: the connection is %v", ErrNotReady, status)
	}
	for _, name := range []string{StreamResponses, StreamRewards, StreamDead, registry.StreamEvents, registry.StreamState, registry.StreamModels} {
		if _, err := q.js.Stream(ctx, name); err != nil {
			return fmt.Errorf("%w: stream %s: %w", ErrNotReady, name, err)
		}
	}
	if err := q.labels.Ready(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrNotReady, err)
	}
	return nil
}

// SetJournal sets WorkerConfig.Journal, for a process that knows its file only
// after Open. Call it before Start.
func (q *Queue) SetJournal(path string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.cfg.Worker.Journal = path
}

// MarkCrash records that a request in flight is about to crash this process: the responses
// in flight stay in WorkerConfig.Journal, although Drain negatively acknowledges them, and
// Drain does not wait for what is in transit, which is delivered again after AckWait.
func (q *Queue) MarkCrash() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.crashing = true
	if q.worker != nil {
		q.worker.markCrash()
	}
}

// Drain stops accepting requests and responses and finishes those in flight. When ctx
// ends, the rest is rejected with 503, or negatively acknowledged so that another process
// gets it. Close the scorer after it, and then the queue.
func (q *Queue) Drain(ctx context.Context) error {
	q.mu.Lock()
	again := q.drained
	q.drained = true
	if q.stopStart != nil {
		q.stopStart()
	}
	q.mu.Unlock()
	if again {
		return nil
	}
	q.starting.Wait()
	q.mu.Lock()
	service, worker := q.service, q.worker
	q.mu.Unlock()
	if worker == nil {
		return nil
	}
	served := make(chan error, 1)
	go func() { served <- service.drain(ctx) }()
	err := worker.drain(ctx)
	return errors.Join(err, <-served)
}

// Close drains, flushes and closes the connection, and stops the embedded server, for
// which it waits even after ctx ended. A second call does nothing.
func (q *Queue) Close(ctx context.Context) error {
	err := q.Drain(ctx)
	q.stop()
	q.running.Wait()
	if q.labels != nil {
		q.labels.Close()
	}
	if q.nc != nil {
		err = errors.Join(err, drain(ctx, q.nc))
	}
	if q.server != nil {
		err = errors.Join(err, q.server.Shutdown())
	}
	return err
}
