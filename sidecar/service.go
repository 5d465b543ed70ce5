package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"github.com/assay-ai/assay/api"
	"github.com/assay-ai/assay/queue"
)

// service is everything that "assay serve" runs, from the open listener to the
// closed NATS server.
type service struct {
	cmd      *serveCmd
	app      *app
	registry *prometheus.Registry
	opened   *openModel
	live     live
	http     *api.Server
	listener net.Listener
	ops      net.Listener  // nil without --ops-listen
	started  chan struct{} // closed when start has returned
}

// newService checks the model and opens the listeners, so that what is wrong
// stops the start. It starts nothing yet.
func newService(c *serveCmd, a *app) (*service, error) {
	s := &service{cmd: c, app: a, registry: prometheus.NewRegistry(), started: make(chan struct{})}
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var err error
	if s.opened, err = c.modelFlags.open(); err != nil {
		return nil, err
	}
	if err := s.listen(); err != nil {
		return nil, errors.Join(err, s.opened.close())
	}
	return s, nil
}

func (s *service) listen() (err error) {
	checks := []api.Check{{Name: "model", Ready: s.live.modelReady}}
	if s.cmd.NATS != "off" {
		checks = append(checks, api.Check{Name: "streams", Ready: s.live.streamsReady})
	}
	if s.http, err = api.New(s.cmd.apiConfig(), api.Parts{Scorer: &s.live, Models: &s.live, Checks: checks}, s.app.log, s.registry); err != nil {
		return usageError{err}
	}
	var config net.ListenConfig
	if s.listener, err = config.Listen(s.app.ctx, "tcp", s.cmd.Listen); err != nil {
		return fmt.Errorf("--listen: %w; stop what uses the address, or choose another", err)
	}
	if s.cmd.OpsListen == "" {
		return nil
	}
	if s.ops, err = config.Listen(s.app.ctx, "tcp", s.cmd.OpsListen); err != nil {
		return errors.Join(fmt.Errorf("--ops-listen: %w; stop what uses the address, or choose another", err), s.listener.Close())
	}
	return nil
}

// run serves until ctx ends, or something fails, and then shuts down in order.
func (s *service) run(ctx context.Context) error {
	// HTTP goes on while the shutdown drains it.
	serving, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.http.Serve(serving, s.listener) })
	if s.ops != nil {
		group.Go(func() error { return s.http.ServeOps(serving, s.ops) })
	}
	group.Go(func() error {
		defer close(s.started)
		err := s.start(ctx)
		if ctx.Err() != nil {
			return nil // we were asked to stop, or the failure is another's
		}
		return err
	})
	group.Go(func() error {
		<-ctx.Done()
		return s.shutdown()
	})
	return group.Wait()
}

// start loads the model while the streams open, and then takes work.
func (s *service) start(ctx context.Context) error {
	s.app.log.Info().Str("http", s.httpURL()).Str("model", s.opened.dir).Msg("starting")
	group, starting := errgroup.WithContext(ctx)
	group.Go(func() error { return s.loadModel(starting) })
	if s.cmd.NATS != "off" {
		group.Go(func() error { return s.openQueue(starting) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if q := s.live.queue.Load(); q != nil {
		if err := q.Start(ctx, &s.live); err != nil {
			return err
		}
	}
	return s.announce()
}

func (s *service) loadModel(ctx context.Context) error {
	m, err := s.opened.load(ctx, s.cmd.scorerConfig(), s.registry)
	if err != nil {
		return err
	}
	manifest := s.opened.checkpoint.Manifest
	s.live.model.Store(&liveModel{m, api.Model{
		Name: m.Info().Name, Version: m.Info().Version, Created: manifest.Created,
		Threshold: manifest.Threshold, Labels: s.opened.checkpoint.Config.Labels,
	}})
	return nil
}

func (s *service) openQueue(ctx context.Context) error {
	q, err := queue.Open(ctx, s.cmd.queueConfig(), s.app.log, s.registry)
	if err != nil {
		return err
	}
	s.live.queue.Store(q)
	return nil
}

var errShutdownTimeout = errors.New("not all was finished within --shutdown-timeout")

// shutdown ends the parts in the order in which they feed each other, all
// before one deadline: not ready any more, HTTP drained, no more responses
// taken and those in flight finished or handed back, the scorer and the model
// stopped, NATS drained and stopped.
func (s *service) shutdown() error {
	s.http.Drain()
	s.app.log.Info().Stringer("within", s.cmd.ShutdownTimeout).Msg("shutting down; a second signal ends at once")
	ctx, cancel := context.WithTimeoutCause(context.Background(), s.cmd.ShutdownTimeout, errShutdownTimeout)
	defer cancel()
	if s.cmd.DrainDelay > 0 {
		_ = wait(ctx, s.cmd.DrainDelay) // shorter than the deadline
	}
	<-s.started // it sees the end of its context

	errs := []error{s.http.Shutdown(ctx)}
	q := s.live.queue.Load()
	if q != nil {
		errs = append(errs, q.Drain(ctx))
	}
	if m := s.live.model.Load(); m != nil {
		errs = append(errs, m.close())
	}
	if q != nil {
		errs = append(errs, q.Close(ctx))
	}
	err := errors.Join(append(errs, s.opened.close())...)
	if err == nil {
		s.app.log.Info().Msg("stopped")
	}
	return err
}
