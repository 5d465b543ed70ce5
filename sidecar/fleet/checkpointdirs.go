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

// CheckpointDirs finds the checkpoint directory of a version: that of --model, or one that was fetched from the object store to
// cache/VERSION.
type CheckpointDirs struct {
	initial  string // version of --model
	model    string // its directory
	cache    string
	registry *registry.Registry // nil until the streams are open, and without NATS
	// fetches bounds what requests that pin a version can have fetched.
	fetches *rate.Limiter
	// needed reports which fetched versions must stay; nil: all of them.
	needed func(ctx context.Context) func(version string) bool
	// Load loads a directory in the background, to see that it can; nil in a process that does not serve.
	Load func(ctx context.Context, dir string) error
}

// Requests that pin a version may have as many versions fetched at first, and one more in each period: enough for the
// runs that one replica serves, and too little to fill its disk with every version that is kept.
const (
	pinnedFetches     = 4
	pinnedFetchPeriod = 10 * time.Minute
)

// NewCheckpointDirs finds version initial in directory model, and others below cache, to which they are fetched.
func NewCheckpointDirs(initial, model, cache string) *CheckpointDirs {
	return &CheckpointDirs{initial: initial, model: model, cache: cache, fetches: rate.NewLimiter(rate.Every(pinnedFetchPeriod), pinnedFetches)}
}

// Directory implements retrain.Directories. What is in the cache was checked when it was fetched, and is checked again when
// it is loaded.
func (f *CheckpointDirs) Directory(ctx context.Context, version string) (string, error) {
	dir, missing, err := f.find(ctx, version)
	if err != nil || missing == nil {
		return dir, err
	}
	return dir, f.registry.Download(ctx, *missing, dir)
}

// Pinned is Folder for a version that a request names. One that has to be fetched counts, and takes the place of those
// that are not needed. Beyond what requests may have fetched, the error is a *rewardmodel.OverloadedError.
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
			"requests have pinned many model versions that this replica had to fetch, and %s is one more", version)}
	}
	if err := f.fetch(ctx, *missing, dir); err != nil {
		reserved.CancelAt(now) // nothing was fetched: it does not count
		return "", err
	}
	return dir, nil
}

// fetch removes the versions that are not needed, and downloads a model to dir.
func (f *CheckpointDirs) fetch(ctx context.Context, m retrain.Model, dir string) error {
	if f.needed != nil {
		if err := f.prune(f.needed(ctx)); err != nil {
			return fmt.Errorf("making room for model %s: %w", m.Version, err)
		}
	}
	return f.registry.Download(ctx, m, dir)
}

// find returns the directory of a version, and its record if it has to be fetched there.
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
	if err := os.RemoveAll(dir); err != nil { // of an attempt before
		return err
	}
	if err := f.registry.Download(ctx, m, dir); err != nil {
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

// verify checks a fetched checkpoint by its own checksums.
func verify(ctx context.Context, dir string) error {
	c, err := checkpoint.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(c.VerifySHA256(ctx), c.Close())
}

// minCacheAge is how long a fetched version stays although nothing names it: it may be about to become current.
const minCacheAge = 10 * time.Minute

// prune removes fetched versions that nothing needs any more.
func (f *CheckpointDirs) prune(keep func(version string) bool) error {
	entries, err := os.ReadDir(f.cache)
	if errors.Is(err, os.ErrNotExist) {
		return nil // nothing was fetched yet
	}
	for _, e := range entries {
		info, gone := e.Info()
		if gone != nil || !e.IsDir() || e.Name()[0] == '.' || keep(e.Name()) || time.Since(info.ModTime()) < minCacheAge {
			continue // with a dot: being fetched
		}
		err = errors.Join(err, os.RemoveAll(filepath.Join(f.cache, e.Name())))
	}
	return err
}
