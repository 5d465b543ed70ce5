package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"assay/api"
	"assay/queue"
	"assay/rewardmodel"
	"assay/rewardmodel/encoder"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// service is everything that "assay serve" runs, from the open listener to the
// closed NATS server.
type service struct {
	cmd      *serveCmd
	app      *cli.App
	registry *prometheus.Registry
	opened   *localmodel.Opened
	policies map[string]rewardmodel.PolicyTokenizer
	loader   *loader             // nil until libtorch has started
	replica  *replica            // nil without NATS
	folders  *folders            // nil until the version of --model is known
	memory   *rewardmodel.Memory // of all requests, whatever they arrive by
	live     live
	watchdog stalls
	calls    encoder.CallWatcher // observes model calls: the watchdog
	desk     desk
	tokens   *api.Tokens // nil without --token-file and --private
	private  string      // token of its owner, "" without --private
	// natsPrivate says that the embedded NATS server asks for the private token.
	natsPrivate bool
	http        *api.Server
	listener    net.Listener
	ops         net.Listener  // nil without --ops-listen
	rpc         net.Listener  // nil without --grpc-listen
	started     chan struct{} // closed when start has returned
	unlearn     func() error  // stops learning, and waits for its end
}

// newService checks the model and opens the listeners, so that what is wrong
// stops the start. It starts nothing yet.
func newService(c *serveCmd, a *cli.App) (*service, error) {
	s := &service{cmd: c, app: a, registry: prometheus.NewRegistry(), started: make(chan struct{}), unlearn: func() error { return nil }}
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	watchdog, err := rewardmodel.NewWatchdog(s.registry)
	if err != nil {
		return nil, err
	}
	s.watchdog, s.calls, s.live.watchdog = watchdog, watchdog, watchdog
	if err := s.loadTokens(); err != nil {
		return nil, cli.Usage(err)
	}
	if s.memory, err = rewardmodel.NewMemory(int64(c.RequestMemory), s.registry); err != nil {
		return nil, cli.Usage(err)
	}
	if s.policies, err = c.PolicyFlags.Load(); err != nil {
		return nil, err
	}
	if s.opened, err = c.Flags.Open(); err != nil {
		return nil, err
	}
	if err := s.listen(); err != nil {
		return nil, errors.Join(err, s.opened.Close())
	}
	return s, nil
}

// loadTokens reads the token file, and generates the token of a private service,
// which then guards the embedded NATS server as well.
func (s *service) loadTokens() (err error) {
	c := s.cmd
	switch {
	case c.Private:
		s.private = rand.Text()
		if c.embedded() && c.NatsToken == "" {
			c.NatsToken, s.natsPrivate = s.private, true
		}
		s.tokens, err = api.LoadPrivateTokens(s.private, c.TokenFile, s.app.Log)
		return err
	case c.TokenFile != "":
		s.tokens, err = api.LoadTokens(c.TokenFile, s.app.Log)
	}
	return err
}

// listen opens the listeners, and then shows the private token to its owner: a
// start that fails because the service already runs leaves that one its token.
func (s *service) listen() (err error) {
	parts := api.Parts{Scorer: &s.live, Models: &s.live, Tokens: s.tokens, Memory: s.memory, Checks: []api.Check{{Name: "model", Ready: s.live.modelReady}}}
	if s.cmd.NATS != "off" {
		parts.Checks = append(parts.Checks, api.Check{Name: "streams", Ready: s.live.streamsReady, AtStart: true})
		parts.Feedback, parts.FeedbackView, parts.Registry = &s.desk, &s.desk, &s.desk
		parts.Promotions, parts.Trainings, parts.Events = &s.desk, &s.desk, &s.desk
	}
	if s.http, err = api.New(s.cmd.apiConfig(), parts, s.app.Log, s.registry); err != nil {
		return cli.Usage(err)
	}
	var config net.ListenConfig
	var opened []net.Listener
	for _, l := range []struct {
		flag, address string
		listener      *net.Listener
	}{
		{"--listen", s.cmd.Listen, &s.listener}, {"--ops-listen", s.cmd.OpsListen, &s.ops}, {"--grpc-listen", s.cmd.GRPCListen, &s.rpc},
	} {
		if l.address == "" {
			continue
		}
		if *l.listener, err = config.Listen(s.app.Context, "tcp", l.address); err != nil {
			return closeAll(opened, fmt.Errorf("%s: %w; stop what uses the address, or choose another", l.flag, err))
		}
		opened = append(opened, *l.listener)
	}
	if s.private != "" {
		if err := cli.WritePrivateToken(s.cmd.DataDir, s.private); err != nil {
			return closeAll(opened, err)
		}
	}
	return nil
}

// closeAll closes listeners after a failure, and returns that.
func closeAll(listeners []net.Listener, err error) error {
	for _, l := range listeners {
		err = errors.Join(err, l.Close())
	}
	return err
}

// run serves until ctx ends, or something fails, and then shuts down in order.
func (s *service) run(ctx context.Context) error {
	// HTTP goes on while the shutdown drains it.
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
	group.Go(func() error {
		<-s.started // what is changed is there
		s.app.Settings.Watch(ctx, s.settings())
		return nil
	})
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
			return nil // we were asked to stop, or the failure is another's
		}
		return err
	})
	hopeless := make(chan error, 1)
	group.Go(func() error {
		err := watchModel(ctx, s.watchdog, s.logStall)
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
func (s *service) start(ctx context.Context) error {
	s.app.Log.Info().Str("http", s.httpURL()).Str("model", s.opened.Dir).Msg("starting")
	group, starting := errgroup.WithContext(ctx)
	var versions *rewardmodel.Versions
	group.Go(func() (err error) {
		versions, err = s.loadModel(starting)
		return err
	})
	if s.cmd.NATS != "off" {
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
	return s.announce()
}

// loadModel starts libtorch and loads the model of --model.
func (s *service) loadModel(ctx context.Context) (*rewardmodel.Versions, error) {
	version, err := s.opened.Version(ctx)
	if err != nil {
		return nil, fmt.Errorf("--model: %w", err)
	}
	s.folders = newFolders(version, s.opened.Dir, filepath.Join(s.cmd.DataDir, "models"))
	runtime, err := s.cmd.Runtime()
	if err != nil {
		return nil, cli.Usage(err)
	}
	runtime.Watch(s.calls)
	scoring := s.cmd.scorerConfig()
	scoring.PolicyTokenizers = s.policies
	s.loader = &loader{flags: s.cmd.Flags, scoring: scoring, runtime: runtime, folder: s.folders.Pinned, metrics: s.registry}
	s.folders.load = s.loader.try
	versions, err := rewardmodel.NewVersions(rewardmodel.VersionsConfig{MaxLoaded: s.cmd.ModelsLoaded, MaxBytes: int64(s.cmd.ModelsBytes)}, s.loader, s.registry)
	if err != nil {
		return nil, err
	}
	if err := versions.Promote(ctx, version); err != nil {
		return nil, errors.Join(fmt.Errorf("--model: %w", err), versions.Close())
	}
	if pin := s.cmd.Pin; pin != "" && pin != version && s.cmd.NATS == "off" {
		return nil, errors.Join(cli.Usage(fmt.Errorf("--pin %s: --model is version %s, and without NATS there is no other", pin, version)), versions.Close())
	}
	return versions, nil
}

func (s *service) openQueue(ctx context.Context) error {
	cfg := s.cmd.queueConfig(s.memory)
	cfg.Service.Labels = &s.desk
	q, err := queue.Open(ctx, cfg, s.app.Log, s.registry)
	if err != nil {
		return err
	}
	s.live.queue.Store(q)
	return nil
}

// learn joins the fleet: from here on this process takes feedback, follows the
// current version or keeps to the pinned one, and trains if it shall.
func (s *service) learn(ctx context.Context, q *queue.Queue, versions *rewardmodel.Versions) (err error) {
	if s.replica, err = claimReplica(s.cmd.DataDir); err != nil {
		return err
	}
	q.SetJournal(s.replica.journal())
	initial, err := describe(s.opened.Dir)
	if err != nil {
		return err
	}
	initial.Version = s.folders.initial
	learning, err := newLearning(ctx, learningConfig{
		flags: s.cmd.retrainFlags, compute: s.cmd.ComputeFlags, replica: s.replica, folders: s.folders,
		initial: initial, trains: s.cmd.Train, log: s.app.Log,
	}, q, versions)
	if err != nil {
		return err
	}
	s.folders.registry = learning.registry
	follow, err := s.join(ctx, learning, versions)
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- learning.run(working, follow) }()
	s.unlearn = func() error {
		stop()
		return <-ended
	}
	s.live.learning.Store(learning)
	s.desk.learning.Store(learning)
	return nil
}

// join brings this process to the version that it is to serve. One that cannot
// be loaded is tried again later, and --model serves meanwhile; one that is
// pinned must load.
func (s *service) join(ctx context.Context, l *learning, versions *rewardmodel.Versions) (*follower, error) {
	follow := &follower{replica: s.replica.id, versions: versions, monitor: l.monitor, journal: l.registry, statuses: l.registry, currents: l.registry, folders: s.folders, log: s.app.Log}
	s.folders.needed = follow.neededNow
	if pin := s.cmd.Pin; pin != "" {
		if err := versions.Promote(ctx, pin); err != nil {
			return nil, fmt.Errorf("--pin %s: %w", pin, err)
		}
		l.monitor.watch(pin)
		return nil, nil
	}
	current, err := l.registry.Current(ctx)
	if err != nil {
		return nil, err
	}
	if err := follow.serve(ctx, current); err != nil {
		follow.complain(ctx, current, err)
	}
	return follow, nil
}

var errShutdownTimeout = errors.New("not all was finished within --shutdown-timeout")

// shutdown ends the parts in the order in which they feed each other, all
// before one deadline: not ready any more, HTTP and gRPC drained, no more responses
// taken and those in flight finished or handed back, a training in hand left
// for the next process, the models stopped, NATS drained and stopped.
func (s *service) shutdown() error {
	s.http.Drain()
	s.app.Log.Info().Stringer("within", s.cmd.ShutdownTimeout).Msg("shutting down; a second signal ends at once")
	stalled := s.watchdog.Stalled() != nil
	timeout := s.cmd.ShutdownTimeout
	if stalled {
		timeout = min(timeout, stallGrace)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, errShutdownTimeout)
	defer cancel()
	if s.cmd.DrainDelay > 0 && !stalled {
		_ = cli.Wait(ctx, s.cmd.DrainDelay) // shorter than the deadline
	}
	<-s.started // it sees the end of its context

	errs := []error{s.http.Shutdown(ctx)}
	q := s.live.queue.Load()
	if q != nil {
		errs = append(errs, q.Drain(ctx))
	}
	errs = append(errs, s.unlearn())
	if !stalled { // it would wait for the model call
		errs = append(errs, s.closeModels())
	}
	if q != nil {
		errs = append(errs, q.Close(ctx))
	}
	if s.replica != nil {
		errs = append(errs, s.replica.release())
	}
	err := errors.Join(append(errs, s.opened.Close())...)
	if err == nil {
		s.app.Log.Info().Msg("stopped")
	}
	return err
}

func (s *service) closeModels() (err error) {
	if versions := s.live.versions.Load(); versions != nil {
		err = versions.Close()
	}
	if s.loader != nil {
		s.loader.runtime.Close()
	}
	return err
}

// settings that take effect at once are the limits of requests over HTTP and NATS.
func (s *service) settings() cli.LiveSettings {
	limits := func(command any) error {
		c := command.(*serveCmd)
		if err := s.http.SetLimits(int64(c.MaxBody), c.limits()); err != nil {
			return err
		}
		if q := s.live.queue.Load(); q != nil {
			q.SetLimits(c.limits())
		}
		return nil
	}
	return cli.LiveSettings{"max-body": limits, "max-responses": limits}
}
