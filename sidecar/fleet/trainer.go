package fleet

import (
	"context"
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
	"assay/sidecar/localmodel"
	"assay/sidecar/traces"
)

// TrainerConfig configures a process that only trains.
type TrainerConfig struct {
	Model     localmodel.Config // the same as in the services
	Training  Config
	Queue     queue.Config // of an external NATS server
	DataDir   string       // for training runs and downloaded models
	OpsListen string       // HOST:PORT of health, metrics and profiles; "": none
	Traces    bool         // export spans over OTLP, as the environment variables of OpenTelemetry configure it
}

// RunTrainer trains on the feedback of services on other machines until ctx ends.
func RunTrainer(ctx context.Context, cfg TrainerConfig, log zerolog.Logger) (err error) {
	opened, err := cfg.Model.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	version, err := opened.Version(ctx)
	if err != nil {
		return err
	}
	replica, err := ClaimReplica(cfg.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, replica.Release()) }()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	if err := cli.RegisterBuildInfo(registry); err != nil {
		return err
	}
	var exporter *traces.Exporter
	if cfg.Traces {
		if exporter, err = traces.Start(registry, log); err != nil {
			return cli.Usage(err)
		}
		defer exporter.Shutdown(context.WithoutCancel(ctx))
	}
	q, err := queue.Open(ctx, cfg.Queue, log, registry)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close(context.WithoutCancel(ctx))) }()
	dirs := NewCheckpointDirs(version, opened.Dir, filepath.Join(cfg.DataDir, "models"))
	learning, err := NewLearning(ctx, LearningConfig{
		Config: cfg.Training, Compute: cfg.Model.Compute, Replica: replica, Dirs: dirs, Trains: true, Metrics: registry, Tracer: exporter.Tracer(), Log: log,
	}, q, nil)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	if cfg.OpsListen != "" {
		group.Go(func() error { return serveOps(ctx, cfg.OpsListen, q, log, registry) })
	}
	log.Info().Str("nats", q.URL()).Str("model", version).Msg("trainer started")
	group.Go(func() error { return learning.Run(ctx) })
	return group.Wait()
}

// serveOps serves health, metrics and profiles until ctx ends.
func serveOps(ctx context.Context, address string, q *queue.Queue, log zerolog.Logger, registry *prometheus.Registry) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--ops-listen: %w; stop the process that uses the address, or choose another", err)
	}
	parts := api.Parts{Scorer: noScorer{}, Models: noScorer{}, Checks: []api.Check{{Name: "streams", Ready: q.StreamsReady, AtStart: true}}}
	server, err := api.New(api.DefaultConfig(), parts, log, registry)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	context.AfterFunc(ctx, func() { _ = server.Shutdown(context.WithoutCancel(ctx)) })
	return server.ServeOps(context.WithoutCancel(ctx), listener)
}

// noScorer takes the place of the models of a service.
type noScorer struct{}

func (noScorer) Score(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	return rewardmodel.ScoreResponse{}, fmt.Errorf("%w: a trainer does not score", rewardmodel.ErrNotReady)
}

func (noScorer) Models(context.Context) ([]api.Model, error) { return nil, nil }
