package serve

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"assay/api"
	"assay/queue"
	"assay/rewardmodel"
	"assay/sidecar/cli"
	"assay/sidecar/fleet"
	"assay/sidecar/localmodel"
)

// Service is an assembled service, from the listeners to the NATS server: New, Start, Ready, and at the end Shutdown.
type Service struct {
	config   Config
	log      zerolog.Logger
	registry *prometheus.Registry
	opened   *localmodel.Opened
	loader   *loader               // nil until libtorch has started
	replica  *fleet.Replica        // nil without NATS
	folders  *fleet.CheckpointDirs // nil until the version of the model is known
	memory   *rewardmodel.Memory   // of all requests, whatever they arrive by
	live     live
	desk     fleet.ControlPlane
	tokens   *api.Tokens // nil without a token file and a private token
	private  string      // token of its owner, "" when the service is not private
	http     *api.Server
	listener net.Listener
	ops      net.Listener // nil without Config.OpsListen
	rpc      net.Listener // nil without Config.GRPCListen
	unlearn  func() error // stops learning, and waits for its end

	stop    context.CancelFunc // nil before Start
	started chan struct{}      // closed when the start has ended, in whichever way
	ready   bool               // the start has succeeded; read it once started is closed
	ended   chan struct{}      // closed when the service has ended
	err     error              // why it ended; read it once ended is closed
}

// New checks the model and opens the listeners, so that what is wrong stops the start. It serves nothing yet; Shutdown
// closes what it opened.
func New(cfg Config, log zerolog.Logger) (*Service, error) {
	s := &Service{
		config: cfg, log: log, registry: cfg.Registry,
		started: make(chan struct{}), ended: make(chan struct{}), unlearn: func() error { return nil },
	}
	if s.registry == nil {
		s.registry = prometheus.NewRegistry()
		s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	var err error
	if s.live.watchdog, err = rewardmodel.NewWatchdog(s.registry); err != nil {
		return nil, err
	}
	if err := s.loadTokens(); err != nil {
		return nil, cli.Usage(err)
	}
	if s.memory, err = rewardmodel.NewMemory(cmp.Or(cfg.RequestMemory, rewardmodel.DefaultMemory), s.registry); err != nil {
		return nil, cli.Usage(err)
	}
	if s.opened, err = cfg.Model.Open(); err != nil {
		return nil, err
	}
	if err := s.listen(); err != nil {
		return nil, errors.Join(err, s.opened.Close())
	}
	return s, nil
}

// loadTokens reads the token file, and generates the token of a private service,
// which then guards the embedded NATS server as well.
func (s *Service) loadTokens() (err error) {
	c := s.config
	switch {
	case c.Private:
		s.private = rand.Text()
		if server := &s.config.Queue.Server; c.embedded() && server.Token == "" {
			server.Token, s.config.Queue.Conn.Token = s.private, s.private
		}
		s.tokens, err = api.LoadPrivateTokens(s.private, c.TokenFile, s.log)
		return err
	case c.TokenFile != "":
		s.tokens, err = api.LoadTokens(c.TokenFile, s.log)
	}
	return err
}

// listen opens the listeners, and then shows the private token to its owner: a
// start that fails because the service already runs leaves that one its token.
func (s *Service) listen() (err error) {
	parts := api.Parts{Scorer: &s.live, Models: &s.live, Tokens: s.tokens, Memory: s.memory, Checks: []api.Check{{Name: "model", Ready: s.live.modelReady}}}
	if s.config.NATS {
		parts.Checks = append(parts.Checks, api.Check{Name: "streams", Ready: s.live.streamsReady, AtStart: true})
		parts.Feedback, parts.FeedbackView, parts.Registry = &s.desk, &s.desk, &s.desk
		parts.Promotions, parts.Trainings, parts.Events = &s.desk, &s.desk, &s.desk
	}
	if s.http, err = api.New(s.config.API, parts, s.log, s.registry); err != nil {
		return cli.Usage(err)
	}
	var config net.ListenConfig
	var opened []net.Listener
	for _, l := range []struct {
		flag, address string
		listener      *net.Listener
	}{
		{"--listen", s.config.Listen, &s.listener}, {"--ops-listen", s.config.OpsListen, &s.ops}, {"--grpc-listen", s.config.GRPCListen, &s.rpc},
	} {
		if l.address == "" {
			continue
		}
		if *l.listener, err = config.Listen(context.Background(), "tcp", l.address); err != nil {
			return closeAll(opened, fmt.Errorf("%s: %w; stop what uses the address, or choose another", l.flag, err))
		}
		opened = append(opened, *l.listener)
	}
	if s.private != "" {
		if err := cli.WritePrivateToken(s.config.DataDir, s.private); err != nil {
			return closeAll(opened, err)
		}
	}
	return nil
}

// listeners are those that are open.
func (s *Service) listeners() (open []net.Listener) {
	for _, l := range []net.Listener{s.listener, s.ops, s.rpc} {
		if l != nil {
			open = append(open, l)
		}
	}
	return open
}

// closeAll closes listeners after a failure, and returns that.
func closeAll(listeners []net.Listener, err error) error {
	for _, l := range listeners {
		err = errors.Join(err, l.Close())
	}
	return err
}

// Start begins to serve: HTTP immediately, scores once the model is loaded and the streams are open. Call it once.
func (s *Service) Start() {
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	go func() {
		defer close(s.ended)
		defer stop()
		s.err = s.run(ctx)
	}()
}

// Ready waits until the service takes work. Its error is that of ctx, or why the service ended before.
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
		return cmp.Or(s.err, errEnded)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errEnded is the error of Ready after a Shutdown.
var errEnded = errors.New("the service was shut down before it was ready")

// Wait waits until the service has ended, and returns why: nil after a Shutdown in which everything was finished.
func (s *Service) Wait() error {
	<-s.ended
	return s.err
}

// Shutdown ends the parts in the order in which they feed each other, within Config.ShutdownTimeout, and waits for it:
// not ready any more, HTTP and gRPC drained, streamed responses finished or handed to other replicas, a training run in
// flight left for the next process, the model and NATS stopped.
func (s *Service) Shutdown() error {
	if s.stop == nil {
		return errors.Join(s.opened.Close(), closeAll(s.listeners(), nil))
	}
	s.stop()
	return s.Wait()
}

// run serves until ctx ends, or something fails, and then shuts down in order.
func (s *Service) run(ctx context.Context) error {
	// HTTP continues while the shutdown drains it.
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
	if s.ops != nil {
		group.Go(func() error { return s.http.ServeOps(serving, s.ops) })
	}
	if s.rpc != nil {
		group.Go(func() error { return s.http.ServeGRPC(serving, s.rpc) })
	}
	group.Go(func() error {
		defer close(s.started)
		err := s.start(ctx)
		if ctx.Err() != nil {
			return nil // the service was asked to stop, or the failure is another's
		}
		s.ready = err == nil
		return err
	})
	hopeless := make(chan error, 1)
	group.Go(func() error {
		err := watchModel(ctx, s.live.watchdog, s.logStall)
		if err != nil {
			hopeless <- err
			if q := s.live.queue.Load(); q != nil {
				q.Crashing()
			}
		}
		return err
	})
	group.Go(func() error {
		<-ctx.Done()
		return s.shutdown()
	})
	return await(group, hopeless)
}

// start loads the model while the streams open, and then takes work.
func (s *Service) start(ctx context.Context) error {
	s.log.Info().Str("http", s.URL()).Str("model", s.opened.Dir).Msg("starting")
	group, starting := errgroup.WithContext(ctx)
	var versions *rewardmodel.Versions
	group.Go(func() (err error) {
		versions, err = s.loadModel(starting)
		return err
	})
	if s.config.NATS {
		group.Go(func() error { return s.openQueue(starting) })
	}
	err := group.Wait()
	if q := s.live.queue.Load(); err == nil && q != nil {
		err = s.learn(ctx, q, versions)
	}
	if err != nil {
		if versions != nil && s.live.versions.Load() == nil {
			err = errors.Join(err, versions.Close())
		}
		return err
	}
	s.live.versions.Store(versions)
	if q := s.live.queue.Load(); q != nil {
		if err := q.Start(ctx, &s.live); err != nil {
			return err
		}
	}
	return nil
}

// loadModel starts libtorch and loads the model of --model.
func (s *Service) loadModel(ctx context.Context) (*rewardmodel.Versions, error) {
	version, err := s.opened.Version(ctx)
	if err != nil {
		return nil, fmt.Errorf("--model: %w", err)
	}
	s.folders = fleet.NewCheckpointDirs(version, s.opened.Dir, filepath.Join(s.config.DataDir, "models"))
	runtime, err := s.config.Model.Runtime()
	if err != nil {
		return nil, cli.Usage(err)
	}
	runtime.Watch(s.live.watchdog)
	s.loader = &loader{model: s.config.Model, scoring: s.config.Scorer, runtime: runtime, folder: s.folders.Pinned, metrics: s.registry}
	s.folders.Load = s.loader.try
	versions, err := rewardmodel.NewVersions(rewardmodel.VersionsConfig{MaxLoaded: s.config.ModelsLoaded, MaxBytes: s.config.ModelsBytes}, s.loader, s.registry)
	if err != nil {
		return nil, err
	}
	if err := versions.Promote(ctx, version); err != nil {
		return nil, errors.Join(fmt.Errorf("--model: %w", err), versions.Close())
	}
	if pin := s.config.Pin; pin != "" && pin != version && !s.config.NATS {
		return nil, errors.Join(cli.Usage(fmt.Errorf("--pin %s: --model is version %s, and without NATS there is no other", pin, version)), versions.Close())
	}
	return versions, nil
}

func (s *Service) openQueue(ctx context.Context) error {
	cfg := s.config.Queue
	cfg.Server.DataDir = s.config.DataDir
	cfg.Worker.Memory, cfg.Service.Memory, cfg.Service.Labels = s.memory, s.memory, &s.desk
	q, err := queue.Open(ctx, cfg, s.log, s.registry)
	if err != nil {
		return err
	}
	s.live.queue.Store(q)
	return nil
}

// learn joins the fleet: from here on this process takes feedback, follows the
// current version or keeps to the pinned one, and trains if it shall.
func (s *Service) learn(ctx context.Context, q *queue.Queue, versions *rewardmodel.Versions) (err error) {
	if s.replica, err = fleet.ClaimReplica(s.config.DataDir); err != nil {
		return err
	}
	q.SetJournal(s.replica.Journal())
	learning, err := fleet.NewLearning(ctx, fleet.LearningConfig{
		Config: s.config.Training, Compute: s.config.Model.Compute, Replica: s.replica, Folders: s.folders,
		Trains: s.config.Train, Log: s.log,
	}, q, versions)
	if err != nil {
		return err
	}
	if err := learning.Join(ctx, s.config.Pin); err != nil {
		return err
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- learning.Run(working) }()
	s.unlearn = func() error {
		stop()
		return <-ended
	}
	s.live.learning.Store(learning)
	s.desk.Connect(learning)
	return nil
}

var errShutdownTimeout = errors.New("not all was finished within --shutdown-timeout")

// shutdown ends the parts in the order in which they feed each other, all
// before one deadline: not ready any more, HTTP and gRPC drained, no more responses
// taken and those in flight finished or handed back, a training in hand left
// for the next process, the models stopped, NATS drained and stopped.
func (s *Service) shutdown() error {
	s.http.Drain()
	s.log.Info().Stringer("within", s.config.ShutdownTimeout).Msg("shutting down; a second signal ends at once")
	stalled := s.live.watchdog.Stalled() != nil
	timeout := s.config.ShutdownTimeout
	if stalled {
		timeout = min(timeout, stallGrace)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, errShutdownTimeout)
	defer cancel()
	if s.config.DrainDelay > 0 && !stalled {
		_ = cli.Wait(ctx, s.config.DrainDelay) // shorter than the deadline
	}
	<-s.started // it sees the end of its context

	errs := []error{s.http.Shutdown(ctx)}
	q := s.live.queue.Load()
	if q != nil {
		errs = append(errs, q.Drain(ctx))
	}
	errs = append(errs, s.unlearn())
	if !stalled && ctx.Err() == nil { // else it could wait forever for a model call
		errs = append(errs, s.closeModels())
	}
	if q != nil {
		errs = append(errs, q.Close(ctx))
	}
	if s.replica != nil {
		errs = append(errs, s.replica.Release())
	}
	err := errors.Join(append(errs, s.opened.Close())...)
	if err == nil {
		s.log.Info().Msg("stopped")
	}
	return err
}

func (s *Service) closeModels() (err error) {
	if versions := s.live.versions.Load(); versions != nil {
		err = versions.Close()
	}
	if s.loader != nil {
		s.loader.runtime.Close()
	}
	return err
}

// SetLimits bounds requests over HTTP, gRPC and NATS from now on: maxBody in bytes, and what one request holds.
func (s *Service) SetLimits(maxBody int64, limits rewardmodel.Limits) error {
	if err := s.http.SetLimits(maxBody, limits); err != nil {
		return err
	}
	if q := s.live.queue.Load(); q != nil {
		q.SetLimits(limits)
	}
	return nil
}
