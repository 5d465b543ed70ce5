package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/assay-ai/assay/queue"
	"github.com/assay-ai/assay/rewardmodel/checkpoint"
	"github.com/assay-ai/assay/rewardmodel/retrain"
)

// folders finds the checkpoint folder of a version: that of --model, or one that was fetched from the object store to
// cache/VERSION.
type folders struct {
	initial  string // version of --model
	model    string // its folder
	cache    string
	registry *queue.Registry // nil until the streams are open, and without NATS
	// load loads a folder aside, to see that it can; nil in a process that does not serve.
	load func(ctx context.Context, dir string) error
}

// Folder implements retrain.Folders. What is in the cache was checked when it was fetched, and is checked again when
// it is loaded.
func (f *folders) Folder(ctx context.Context, version string) (string, error) {
	if version == f.initial {
		return f.model, nil
	}
	dir, err := f.cached(version)
	if err != nil {
		return "", err
	}
	if verify(ctx, dir) == nil {
		return dir, nil
	}
	if f.registry == nil {
		return "", fmt.Errorf("model %s: %w", version, retrain.ErrNoModel)
	}
	m, err := f.registry.Model(ctx, version)
	if err != nil {
		return "", err
	}
	if len(m.Files) == 0 {
		return "", fmt.Errorf("model %s (%s): %w", version, m.State, retrain.ErrNoFiles)
	}
	return dir, f.registry.Download(ctx, m, dir)
}

// Verify implements retrain.Folders.
func (f *folders) Verify(ctx context.Context, m retrain.Model) error {
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
	if err := verify(ctx, dir); err != nil || f.load == nil {
		return err
	}
	return f.load(ctx, dir)
}

func (f *folders) cached(version string) (string, error) {
	name, err := folderName(version)
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

// justFetched is how long a fetched version stays although nobody names it: it may be about to become current.
const justFetched = 10 * time.Minute

// prune removes fetched versions that nobody needs any more.
func (f *folders) prune(keep func(version string) bool) error {
	entries, err := os.ReadDir(f.cache)
	if errors.Is(err, os.ErrNotExist) {
		return nil // nothing was fetched yet
	}
	for _, e := range entries {
		info, gone := e.Info()
		if gone != nil || !e.IsDir() || e.Name()[0] == '.' || keep(e.Name()) || time.Since(info.ModTime()) < justFetched {
			continue // with a dot: being fetched
		}
		err = errors.Join(err, os.RemoveAll(filepath.Join(f.cache, e.Name())))
	}
	return err
}
