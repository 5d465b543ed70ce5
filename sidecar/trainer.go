package main

import (
	"context"
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
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// trainerCmd trains for services elsewhere, on machines that score nothing.
type trainerCmd struct {
	DataDir   string `default:"${data_dir}" placeholder:"DIR" help:"Folder for trainings in hand and fetched models (${default})."`
	OpsListen string `placeholder:"HOST:PORT" help:"Serve health and metrics there."`

	localmodel.Flags `group:"Model:"`
	cli.NATSFlags    `group:"NATS:"`
	streamFlags      `group:"NATS streams (0: as it is, or the default of a new stream):"`
	retrainFlags     `group:"Training:"`
}

// Help is shown by --help.
func (*trainerCmd) Help() string {
	return `Example:

    assay serve --no-train --nats-url nats://nats:4222      # on every machine that scores
    assay trainer --nats-url nats://nats:4222               # on the one that trains

Trains on the feedback that services take, and promotes what passes the gate. Give it the same --model as the services.
Of several trainers one works at a time, and another takes over when it falls silent.`
}

// Run is called by kong.
func (c *trainerCmd) Run(a *cli.App) error {
	if c.NatsURL == "" {
		return cli.Usage(errors.New("--nats-url is missing; give that of the services, such as nats://nats:4222"))
	}
	if err := c.retrainFlags.validate(); err != nil {
		return cli.Usage(err)
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	return c.run(ctx, a)
}

func (c *trainerCmd) run(ctx context.Context, a *cli.App) (err error) {
	opened, err := c.Flags.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	version, err := opened.Version(ctx)
	if err != nil {
		return err
	}
	who, err := claimReplica(c.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, who.release()) }()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	q, err := queue.Open(ctx, queue.Config{Conn: c.NATSFlags.PrivateConfig(c.DataDir), Streams: c.streamFlags.config()}, a.Log, registry)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close(context.WithoutCancel(ctx))) }()
	found := newFolders(version, opened.Dir, filepath.Join(c.DataDir, "models"))
	learning, err := newLearning(ctx, learningConfig{
		flags: c.retrainFlags, compute: c.ComputeFlags, replica: who, folders: found, trains: true, log: a.Log,
	}, q, nil)
	if err != nil {
		return err
	}
	found.registry = learning.registry
	group, ctx := errgroup.WithContext(ctx)
	if c.OpsListen != "" {
		group.Go(func() error { return c.serveOps(ctx, a, q, registry) })
	}
	group.Go(func() error {
		a.Settings.Watch(ctx, nil)
		return nil
	})
	a.Log.Info().Str("nats", q.URL()).Str("model", version).Msg("training for others")
	group.Go(func() error { return learning.run(ctx, nil) })
	return group.Wait()
}

// serveOps serves health and metrics until ctx ends.
func (c *trainerCmd) serveOps(ctx context.Context, a *cli.App, q *queue.Queue, registry *prometheus.Registry) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", c.OpsListen)
	if err != nil {
		return fmt.Errorf("--ops-listen: %w; stop what uses the address, or choose another", err)
	}
	parts := api.Parts{Scorer: scoresNothing{}, Models: scoresNothing{}, Checks: []api.Check{{Name: "streams", Ready: q.StreamsReady, AtStart: true}}}
	server, err := api.New(api.DefaultConfig(), parts, a.Log, registry)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	context.AfterFunc(ctx, func() { _ = server.Shutdown(context.WithoutCancel(ctx)) })
	return server.ServeOps(context.WithoutCancel(ctx), listener)
}

// scoresNothing stands where a service has its models.
type scoresNothing struct{}

func (scoresNothing) Score(context.Context, rewardmodel.Request) (rewardmodel.Answer, error) {
	return rewardmodel.Answer{}, fmt.Errorf("%w: a trainer scores nothing", api.ErrNotReady)
}

func (scoresNothing) Models(context.Context) ([]api.Model, error) { return nil, nil }
