package hub

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"assay/internal/durable"
)

// stagingSuffix names the directory next to the final one in which a pull stages
// its files, and in which a later pull finds the files of a killed one.
const stagingSuffix = ".pulling"

// target resolves links and restores a replacement that a crash interrupted.
func target(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	return dir, durable.Restore(dir)
}

// openStaging creates the staging directory of a pull, and locks it until release.
func openStaging(dir string) (path string, release func() error, err error) {
	path = dir + stagingSuffix
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", nil, err
	}
	lock, err := durable.TryLock(path)
	switch {
	case errors.Is(err, durable.ErrLocked):
		return "", nil, fmt.Errorf("another pull is filling %s; wait for it, or choose another directory: %w", path, ErrOccupied)
	case err != nil && !errors.Is(err, durable.ErrNoLocks): // without locks, callers must not pull concurrently
		return "", nil, err
	}
	return path, lock.Unlock, nil
}

// install puts the staging directory, without the files that the receipt does
// not list, in the place of dir.
func install(staging, dir string, receipt Receipt) error {
	unlisted, err := receipt.unlisted(staging)
	if err != nil {
		return err
	}
	for _, name := range unlisted {
		if err := os.RemoveAll(filepath.Join(staging, name)); err != nil {
			return err
		}
	}
	return durable.ReplaceDir(dir, staging)
}
