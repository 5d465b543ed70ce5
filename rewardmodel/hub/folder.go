package hub

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"assay/internal/durable"
)

// gatherSuffix names the directory next to the final one in which a pull gathers
// its files, and where a later pull finds what a killed one has left.
const gatherSuffix = ".pulling"

// target follows links, and undoes a replacement that a crash interrupted.
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

// gather creates the directory that a pull fills, and locks it until release.
func gather(dir string) (path string, release func() error, err error) {
	path = dir + gatherSuffix
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", nil, err
	}
	lock, err := durable.TryLock(path)
	switch {
	case errors.Is(err, durable.ErrLocked):
		return "", nil, fmt.Errorf("another pull is filling %s; wait for it, or choose another folder: %w", path, ErrOccupied)
	case err != nil && !errors.Is(err, durable.ErrNoLocks): // without locks its users must take turns
		return "", nil, err
	}
	return path, lock.Unlock, nil
}

// install puts the gathered directory, without the files that the receipt does
// not list, in the place of dir.
func install(gathered, dir string, receipt Receipt) error {
	strange, err := receipt.strangers(gathered)
	if err != nil {
		return err
	}
	for _, name := range strange {
		if err := os.RemoveAll(filepath.Join(gathered, name)); err != nil {
			return err
		}
	}
	return durable.ReplaceDir(dir, gathered)
}
