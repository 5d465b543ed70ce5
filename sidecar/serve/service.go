package serve

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"assay/api"
	"assay/api/access"
	"assay/internal/servertls"
	"assay/rewardmodel"
	"assay/rewardmodel/live"
	"assay/rewardmodel/recent"
	"assay/rewardmodel/wire"
	"assay/sidecar/cli"
	"assay/sidecar/fleet"
	"assay/sidecar/localmodel"
	"assay/sidecar/traces"
)

// Service is the assembled service, from the listeners to the NATS server. Call New, Start, Ready, and finally Shutdown.
type Service struct {
	config       Config
	log          zerolog.Logger
	registry     *prometheus.Registry
	opened       *localmodel.Opened
	loader       *loader               // nil until libtorch has started
	replica      *fleet.Replica        // nil without NATS
	dirs         *fleet.CheckpointDirs // nil until the version of the model is known
	traces       *traces.Exporter      // nil without Config.Traces
	memory       *rewardmodel.Memory   // of all requests, over all protocols
	scored       *recent.Ring          // what the current and all other versions scored last
	handle       modelHandle
	live         *live.Sessions // over all protocols
	control      fleet.ControlPlane
	tokens       *access.Tokens      // nil if the service has neither a token file nor a private token
	tls          *servertls.Identity // nil without Config.TLS
	private      string              // the private token; "" if the service is not private
	http         *api.Server
	listener     net.Listener
	ops          net.Listener // nil without Config.OpsListen
	grpc         net.Listener // nil without Config.GRPCListen
	stopLearning func() error // stops learning and waits until it has stopped

	stop    context.CancelFunc // nil before Start
	started chan struct{}      // closed when the start has succeeded or failed
	ready   bool               // the start has succeeded; read it once started is closed
	ended   chan struct{}      // closed when the service has ended
	err     error              // why it ended; read it once ended is closed
}

// New checks the settings and the model, and opens the listeners, so that errors fail the start. It does not serve yet;
// Shutdown closes what it opened.
func New(cfg Config, log zerolog.Logger) (*Service, error) {
	s := &Service{
		config: cfg, log: log, registry: cfg.Registry,
		started: make(chan struct{}), ended: make(chan struct{}), stopLearning: func() error { return nil },
	}
	if s.registry == nil {
		s.registry = prometheus.NewRegistry()
		s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	s.live = live.New(&s.handle, cfg.Live)
	if err := s.registry.Register(s.live); err != nil {
		return nil, err
	}
	err := cli.RegisterBuildInfo(s.registry)
	if err != nil {
		return nil, err
	}
	if s.handle.watchdog, err = rewardmodel.NewWatchdog(s.registry); err != nil {
		return nil, err
	}
	if err := s.loadTokens(); err != nil {
		return nil, cli.Usage(err)
	}
	if cfg.TLS.Enabled() {
		if s.tls, err = servertls.Load(cfg.TLS, log); err != nil {
			return nil, cli.Usage(err)
		}
	}
	if s.memory, err = rewardmodel.NewMemory(cmp.Or(cfg.RequestMemory, rewardmodel.DefaultMemory), s.registry); err != nil {
		return nil, cli.Usage(err)
	}
	if s.opened, err = cfg.Model.Open(); err != nil {
		return nil, err
	}
	s.recordScored()
	if cfg.Traces {
		if s.traces, err = traces.Start(s.registry, log); err != nil {
			return nil, errors.Join(cli.Usage(err), s.opened.Close())
		}
	}
	if err := s.listen(); err != nil {
		s.traces.Shutdown(context.Background())
		return nil, errors.Join(err, s.opened.Close())
	}
	return s, nil
}

// loadTokens reads the token file, and generates the token of a private service,
// which the embedded NATS server then requires as well.
func (s *Service) loadTokens() (err error) {
	c := s.config
	switch {
	case c.Private:
		s.private = rand.Text()
		if server := &s.config.Queue.Server; c.Embedded() && server.Token == "" {
			server.Token, s.config.Queue.Conn.Token = s.private, s.private
		}
		s.tokens, err = access.LoadPrivate(s.private, c.TokenFile, s.log)
	case c.TokenFile != "":
		s.tokens, err = access.Load(c.TokenFile, s.log)
	}
	if err == nil && c.TLS.ClientCA == "" && s.tokens != nil && s.tokens.NamesCertificates() {
		return fmt.Errorf("token file %s names client certificates, which no connection has: set --tls-client-ca, or remove the lines that begin with \"cert:\"", c.TokenFile)
	}
	return err
}

// recordScored makes every scorer record what it scores. Texts are recorded only where
// scored responses are stored with their texts anyway, and not for longer.
func (s *Service) recordScored() {
	config := recent.Config{Erased: s.handle.erased}
	if s.config.NATS {
		config.Texts = s.config.Queue.Streams.KeepScored
	}
	s.scored = recent.New(config)
	s.config.Scorer.Observer = s.scored
}

// Start starts the service: HTTP immediately, scoring once the model is loaded and the streams are open. Call it once.
func (s *Service) Start() {
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() {
		defer close(s.ended)
		defer stop()
		s.err = s.run(ctx)
	}()
}

// Ready waits until the service accepts requests. It returns the cause of ctx, or the reason why the service ended first.
func (s *Service) Ready(ctx context.Context) error {
	select {
	case <-s.started:
		if s.ready {
			return nil
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-s.ended:
		if s.err != nil {
			return s.err
		}
		return errShutdown
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errShutdown is the error of Ready after a Shutdown.
var errShutdown = errors.New("the service was shut down before it was ready")

// Wait waits until the service has ended, and returns the reason: nil after a complete Shutdown.
func (s *Service) Wait() error {
	<-s.ended
	return s.err
}

// Shutdown stops the service within Config.ShutdownTimeout and waits for it. In order, it reports not ready, ends live sessions,
// drains HTTP and gRPC, finishes streamed responses or negatively acknowledges them for other replicas, interrupts a training run,
// which resumes after the next start, stops the model and NATS, and exports the remaining spans.
func (s *Service) Shutdown() error {
	if s.stop == nil {
		s.traces.Shutdown(context.Background())
		return errors.Join(s.opened.Close(), closeAll(s.listeners(), nil))
	}
	s.stop()
	return s.Wait()
}

// run serves until ctx ends or a component fails, and then shuts down.
func (s *Service) run(ctx context.Context) error {
	// HTTP keeps serving while the shutdown drains it.
	serving, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.http.Serve(serving, s.listener) })
	if s.tokens != nil {
		group.Go(func() error {
			s.tokens.Watch(ctx)
			return nil
		})
	}
	if s.tls != nil {
		group.Go(func() error {
			s.tls.Watch(ctx)
			return nil
		})
	}
	if s.ops != nil {
		group.Go(func() error { return s.http.ServeOps(serving, s.ops) })
	}
	if s.grpc != nil {
		group.Go(func() error { return s.http.ServeGRPC(serving, s.grpc) })
	}
	group.Go(func() error {
		defer close(s.started)
		err := s.start(ctx)
		if ctx.Err() != nil {
			return nil // shutting down, or another component failed
		}
		s.ready = err == nil
		return err
	})
	unrecoverable := make(chan error, 1)
	group.Go(func() error {
		err := watchModel(ctx, s.handle.watchdog, s.logStall)
		if err != nil {
			unrecoverable <- err
		}
		if q := s.handle.queue.Load(); q != nil && errors.Is(err, rewardmodel.ErrStalled) {
			q.MarkCrash()
		}
		return err
	})
	group.Go(func() error {
		<-ctx.Done()
		return s.shutdown()
	})
	return await(group, unrecoverable)
}

// SetLimits sets the limits of new requests over HTTP, gRPC and NATS: maxBody in bytes, and the content of a request.
func (s *Service) SetLimits(maxBody int64, limits wire.Limits) error {
	if err := s.http.SetLimits(maxBody, limits); err != nil {
		return err
	}
	if q := s.handle.queue.Load(); q != nil {
		q.SetLimits(limits)
	}
	return nil
}
