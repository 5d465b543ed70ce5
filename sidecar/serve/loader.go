package serve

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"assay/rewardmodel"
	"assay/rewardmodel/encoder"
	"assay/rewardmodel/retrain"
	"assay/rewardmodel/versions"
	"assay/sidecar/localmodel"
)

// loader loads model versions, all on the thread that owns libtorch. It implements versions.Loader.
type loader struct {
	model   localmodel.Config
	scoring rewardmodel.ScorerConfig
	runtime *encoder.Runtime
	find    func(ctx context.Context, version string) (dir string, err error)
	metrics prometheus.Registerer
	first   *localmodel.Opened // the model of the start, which its first load need not open again; then nil

	precision atomic.Value // encoder.Precision of the last loaded model
}

// precisionAndDevice are those of the last loaded model.
func (l *loader) precisionAndDevice() (precision encoder.Precision, device string) {
	precision, _ = l.precision.Load().(encoder.Precision)
	return precision, l.runtime.Device()
}

// Load implements versions.Loader.
func (l *loader) Load(ctx context.Context, version string, room func(bytes int64) error) (versions.Loaded, error) {
	dir, err := l.find(ctx, version)
	if errors.Is(err, retrain.ErrNoModel) || errors.Is(err, retrain.ErrNoFiles) {
		err = fmt.Errorf("%w: %w", versions.ErrUnknown, err)
	}
	if err != nil {
		return versions.Loaded{}, err
	}
	if first := l.first; first != nil && first.Dir == dir {
		l.first = nil
		return l.load(ctx, first, room, l.metrics)
	}
	return l.open(ctx, dir, room, l.metrics)
}

// open opens the checkpoint in a directory and loads it.
func (l *loader) open(ctx context.Context, dir string, room func(bytes int64) error, metrics prometheus.Registerer) (versions.Loaded, error) {
	opened, err := l.model.OpenDir(dir)
	if err != nil {
		return versions.Loaded{}, fmt.Errorf("model %s: %w", dir, err)
	}
	defer opened.Close()
	return l.load(ctx, opened, room, metrics)
}

// load loads an opened checkpoint.
func (l *loader) load(ctx context.Context, opened *localmodel.Opened, room func(bytes int64) error, metrics prometheus.Registerer) (versions.Loaded, error) {
	bytes, err := l.runtime.Bytes(opened.Checkpoint, l.model.Precision)
	if err != nil {
		return versions.Loaded{}, err
	}
	bytes += l.scoring.CacheBytes
	if err := room(bytes); err != nil {
		return versions.Loaded{}, err
	}
	m, err := opened.Start(ctx, l.runtime, l.scoring, metrics)
	if err != nil {
		return versions.Loaded{}, fmt.Errorf("model %s: %w", opened.Dir, err)
	}
	l.precision.Store(m.Encoder.Precision())
	return versions.Loaded{
		Scorer: m.Scorer, Created: opened.Checkpoint.Manifest.Created, Labels: opened.Checkpoint.Config.Labels,
		Bytes: bytes, Free: m.Encoder.Close,
	}, nil
}

// try loads the checkpoint in a directory and frees it, to check that it can be served.
func (l *loader) try(ctx context.Context, dir string) error {
	// Without metrics: the version may be loaded to serve at the same time, with the same series.
	loaded, err := l.open(ctx, dir, func(int64) error { return nil }, nil)
	if err != nil {
		return err
	}
	loaded.Close()
	return loaded.Free()
}
