package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/time/rate"

	"assay/queue/registry"
	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/retrain"
)

// CheckpointDirs finds the checkpoint directory of a version: that of --model, or CACHE/VERSION, downloaded from the
// object store.
type CheckpointDirs struct {
	initial  string // version of --model
	model    string // its directory
	cache    string
	registry *registry.Registry // nil until the streams are open, and without NATS
	// fetches limits the downloads for requests that pin a version.
	fetches *rate.Limiter
	// needed returns a predicate for the versions to keep in the cache; nil until the registry is open: keep all.
	needed func(ctx context.Context) func(version string) bool
	// Load checks that the checkpoint in a directory can be loaded; nil in a process that does not serve.
	Load func(ctx context.Context, dir string) error
}

// Rate limit of the downloads for requests that pin a version: a burst, and one more in each period. It is enough for the
// training runs that one replica serves, and too little to fill its disk with all stored versions.
const (
	pinnedFetches     = 4
	pinnedFetchPeriod = 10 * time.Minute
)

// NewCheckpointDirs returns a CheckpointDirs with version initial in directory model, and downloads of others in cache.
func NewCheckpointDirs(initial, model, cache string) *CheckpointDirs {
	return &CheckpointDirs{initial: initial, model: model, cache: cache, fetches: rate.NewLimiter(rate.Every(pinnedFetchPeriod), pinnedFetches)}
}

// Directory implements retrain.Directories. Cached files are verified after the download and again when they are loaded.
// A download first removes cached versions that are not needed.
func (f *CheckpointDirs) Directory(ctx context.Context, version string) (string, error) {
	dir, missing, err := f.find(ctx, version)
	if err != nil || missing == nil {
		return dir, err
	}
	return dir, f.download(ctx, *missing, dir)
}

// Pinned is Directory for a version that a request pins. A download counts against the rate limit. Beyond it, the error
// is a *rewardmodel.OverloadedError.
func (f *CheckpointDirs) Pinned(ctx context.Context, version string) (string, error) {
	dir, missing, err := f.find(ctx, version)
	if err != nil || missing == nil {
		return dir, err
	}
	now := time.Now()
	reserved := f.fetches.ReserveN(now, 1)
	if wait := reserved.DelayFrom(now); wait > 0 {
		reserved.CancelAt(now)
		return "", &rewardmodel.OverloadedError{RetryAfter: wait, Reason: fmt.Sprintf(
			"too many downloads of pinned model versions on this replica; cannot download %s now", version)}
	}
	if err := f.fetch(ctx, *missing, dir); err != nil {
		reserved.CancelAt(now) // a failed download does not count
		return "", err
	}
	return dir, nil
}

// fetch is download for a request: without room made first, requests could fill the disk.
func (f *CheckpointDirs) fetch(ctx context.Context, m retrain.Model, dir string) error {
	if err := f.prune(ctx); err != nil {
		return fmt.Errorf("make room for model %s: %w", m.Version, err)
	}
	return f.registry.Download(ctx, m, dir)
}

// download removes cached versions that are not needed, and downloads a model to dir. It downloads also if it cannot
// remove one, since the fleet serves the model, or is about to.
func (f *CheckpointDirs) download(ctx context.Context, m retrain.Model, dir string) error {
	pruned := f.prune(ctx)
	if err := f.registry.Download(ctx, m, dir); err != nil {
		return errors.Join(err, pruned)
	}
	return nil
}

// find returns the directory of a version, and its record if it must be downloaded to that directory.
func (f *CheckpointDirs) find(ctx context.Context, version string) (dir string, missing *retrain.Model, err error) {
	if version == f.initial {
		return f.model, nil, nil
	}
	if dir, err = f.cached(version); err != nil {
		return "", nil, err
	}
	if verify(ctx, dir) == nil {
		return dir, nil, nil
	}
	if f.registry == nil {
		return "", nil, fmt.Errorf("model %s: %w", version, retrain.ErrNoModel)
	}
	m, err := f.registry.Model(ctx, version)
	if err != nil {
		return "", nil, err
	}
	if len(m.Files) == 0 {
		return "", nil, fmt.Errorf("model %s (%s): %w", version, m.State, retrain.ErrNoFiles)
	}
	return dir, &m, nil
}

// Verify implements retrain.Directories.
func (f *CheckpointDirs) Verify(ctx context.Context, m retrain.Model) error {
	dir, err := f.cached(m.Version)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil { // left by an earlier attempt
		return err
	}
	if err := f.download(ctx, m, dir); err != nil {
		return err
	}
	if err := verify(ctx, dir); err != nil || f.Load == nil {
		return err
	}
	return f.Load(ctx, dir)
}

func (f *CheckpointDirs) cached(version string) (string, error) {
	name, err := dirName(version)
	return filepath.Join(f.cache, name), err
}

// verify checks the checksums in a downloaded checkpoint.
func verify(ctx context.Context, dir string) error {
	c, err := checkpoint.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(c.VerifySHA256(ctx), c.Close())
}

// minCacheAge is the minimum age at which an unused version is removed: a newer one may be about to become current.
const minCacheAge = 10 * time.Minute

// prune removes cached versions that are no longer needed.
func (f *CheckpointDirs) prune(ctx context.Context) error {
	if f.needed == nil {
		return nil
	}
	keep := f.needed(ctx)
	entries, err := os.ReadDir(f.cache)
	if errors.Is(err, os.ErrNotExist) {
		return nil // no downloads yet
	}
	for _, e := range entries {
		info, gone := e.Info()
		if gone != nil || !e.IsDir() || e.Name()[0] == '.' || keep(e.Name()) || time.Since(info.ModTime()) < minCacheAge {
			continue // a leading dot: download in progress
		}
		err = errors.Join(err, os.RemoveAll(filepath.Join(f.cache, e.Name())))
	}
	return err
}
