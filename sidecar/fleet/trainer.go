package fleet

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"assay/api"
	"assay/queue"
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
		group.Go(func() error {
			return api.ServeOps(ctx, cfg.OpsListen, nil, api.Check{Name: "streams", Ready: q.StreamsReady, AtStart: true}, log, registry)
		})
	}
	log.Info().Str("nats", q.URL()).Str("model", version).Msg("trainer started")
	group.Go(func() error { return learning.Run(ctx) })
	return group.Wait()
}
