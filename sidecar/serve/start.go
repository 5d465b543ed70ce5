package serve

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"assay/queue"
	"assay/rewardmodel/versions"
	"assay/sidecar/cli"
	"assay/sidecar/fleet"
)

// start loads the model and opens the streams concurrently, and then starts to accept requests.
func (s *Service) start(ctx context.Context) error {
	s.log.Info().Str("http", s.URL()).Str("model", s.opened.Dir).Msg("starting")
	group, starting := errgroup.WithContext(ctx)
	var versions *versions.Set
	group.Go(func() (err error) {
		versions, err = s.loadModel(starting)
		return err
	})
	if s.config.NATS {
		group.Go(func() error { return s.openQueue(starting) })
	}
	err := group.Wait()
	if q := s.handle.queue.Load(); err == nil && q != nil {
		err = s.learn(ctx, q, versions)
	}
	if err != nil {
		if versions != nil && s.handle.versions.Load() == nil {
			err = errors.Join(err, versions.Close())
		}
		return err
	}
	s.handle.versions.Store(versions)
	if q := s.handle.queue.Load(); q != nil {
		if err := q.Start(ctx, &s.handle); err != nil {
			return err
		}
	}
	return nil
}

// loadModel starts libtorch and loads the model of --model.
func (s *Service) loadModel(ctx context.Context) (*versions.Set, error) {
	version, err := s.opened.Version(ctx)
	if err != nil {
		return nil, fmt.Errorf("--model: %w", err)
	}
	s.dirs = fleet.NewCheckpointDirs(version, s.opened.Dir, filepath.Join(s.config.DataDir, "models"))
	model := s.config.Model
	model.Warn = func(err error) { s.log.Warn().Err(err).Msg("packed weights are not used") }
	model.Watch = faultRecorder{s.handle.watchdog, &s.handle.queue}
	runtime, err := model.Runtime()
	if err != nil {
		return nil, cli.Usage(err)
	}
	s.loader = &loader{model: s.config.Model, scoring: s.config.Scorer, runtime: runtime, find: s.dirs.Pinned, metrics: s.registry, first: s.opened}
	s.dirs.Load = s.loader.try
	versions, err := versions.New(versions.Config{MaxLoaded: s.config.ModelsLoaded, MaxBytes: s.config.ModelsBytes}, s.loader, s.registry)
	if err != nil {
		return nil, err
	}
	if err := versions.Promote(ctx, version); err != nil {
		return nil, errors.Join(fmt.Errorf("--model: %w", err), versions.Close())
	}
	if pin := s.config.Pin; pin != "" && pin != version && !s.config.NATS {
		return nil, errors.Join(cli.Usage(fmt.Errorf("--pin %s: --model is version %s, and other versions need NATS; omit --pin or --nats off", pin, version)), versions.Close())
	}
	return versions, nil
}

func (s *Service) openQueue(ctx context.Context) error {
	cfg := s.config.Queue
	cfg.Server.DataDir = s.config.DataDir
	cfg.Worker.Memory, cfg.Service.Memory = s.memory, s.memory
	cfg.Worker.Tracer, cfg.Service.Tracer = s.traces.Tracer(), s.traces.Tracer()
	cfg.Service.Live = s.live
	q, err := queue.Open(ctx, cfg, s.log, s.registry)
	if err != nil {
		return err
	}
	s.handle.queue.Store(q)
	return nil
}

// learn joins the fleet: this process then accepts feedback, follows the current
// version or serves the pinned one, and trains if Config.Train is set.
func (s *Service) learn(ctx context.Context, q *queue.Queue, versions *versions.Set) (err error) {
	if s.replica, err = fleet.ClaimReplica(s.config.DataDir); err != nil {
		return err
	}
	q.SetJournal(s.replica.Journal())
	learning, err := fleet.NewLearning(ctx, fleet.LearningConfig{
		Config: s.config.Training, Compute: s.config.Model.Compute, Replica: s.replica, Dirs: s.dirs,
		Trains: s.config.Train, Metrics: s.registry, Tracer: s.traces.Tracer(), Log: s.log,
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
	s.stopLearning = func() error {
		stop()
		return <-ended
	}
	s.handle.learning.Store(learning)
	s.control.Connect(learning)
	return nil
}
