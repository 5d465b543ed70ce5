package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// BuildDir creates a directory with fill and replaces dir, including its content, with
// it. An error of fill is returned unchanged, and dir does not change. fill must flush
// its files, see CreateFile.
//
// While it is filled, the directory is ".NAME.new-RANDOM" in the parent of dir,
// and locked, so that the next BuildDir removes directories of killed processes but
// not of running ones. Readers need no lock.
func BuildDir(dir string, perm fs.FileMode, fill func(tmp string) error) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	tmp, held, err := begin(dir, perm)
	if err != nil {
		return err
	}
	defer held.Unlock()
	err = fill(tmp)
	if err == nil {
		err = ReplaceDir(dir, tmp)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	return nil
}

// begin removes temporary directories of killed processes, then creates and locks a
// new one.
func begin(dir string, perm fs.FileMode) (tmp string, held *Lock, err error) {
	parent, prefix := filepath.Dir(dir), "."+filepath.Base(dir)+".new-"
	ordered, err := optional(WaitLock(parent))
	if err != nil {
		return "", nil, err
	}
	defer ordered.Unlock()
	if err := sweep(parent, prefix); err != nil {
		return "", nil, err
	}
	if err := restore(dir); err != nil {
		return "", nil, err
	}
	if tmp, err = os.MkdirTemp(parent, prefix); err != nil {
		return "", nil, err
	}
	if held, err = optional(WaitLock(tmp)); err == nil {
		err = os.Chmod(tmp, perm)
	}
	if err != nil {
		return "", nil, errors.Join(err, held.Unlock(), os.Remove(tmp))
	}
	return tmp, held, nil
}

// sweep removes the temporary directories that no process has locked.
func sweep(parent, prefix string) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.IsDir() || !strings.HasPrefix(entry.Name(), prefix) {
			continue
		}
		path := filepath.Join(parent, entry.Name())
		unused, err := TryLock(path)
		if err != nil {
			continue // in use, already removed, or another user's
		}
		if err := errors.Join(os.RemoveAll(path), unused.Unlock()); err != nil {
			return err
		}
	}
	return nil
}

// ReplaceDir renames the directory tmp to dir and removes the old dir. Both
// have the same parent. If the file system cannot exchange two directories atomically,
// dir does not exist for a moment; after a crash in that moment, Survivor and the next
// BuildDir or Restore find the old one.
func ReplaceDir(dir, tmp string) error {
	if err := SyncDir(tmp); err != nil {
		return err
	}
	parent := filepath.Dir(dir)
	ordered, err := optional(WaitLock(parent))
	if err != nil {
		return err
	}
	defer ordered.Unlock()
	old := tmp
	switch err := exchange(tmp, dir); {
	case errors.Is(err, fs.ErrNotExist):
		old = ""
		if err := os.Rename(tmp, dir); err != nil {
			return err
		}
	case errors.Is(err, errors.ErrUnsupported):
		old = asideName(dir)
		if err := renameAside(tmp, dir, old); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	if err := SyncDir(parent); err != nil {
		return err
	}
	if old != "" {
		_ = os.RemoveAll(old) // the next BuildDir retries
	}
	return nil
}

// renameAside replaces dir in two steps.
func renameAside(tmp, dir, aside string) error {
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	if err := os.Rename(dir, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		back := os.Rename(aside, dir)
		if errors.Is(back, fs.ErrNotExist) {
			back = nil
		}
		return errors.Join(err, back)
	}
	return nil
}

// Restore puts the old directory back if a crash between the two renames of
// ReplaceDir left no dir.
func Restore(dir string) error {
	ordered, err := optional(WaitLock(filepath.Dir(dir)))
	if err != nil {
		return err
	}
	defer ordered.Unlock()
	return restore(dir)
}

// restore also removes an old directory that ReplaceDir could not remove.
func restore(dir string) error {
	aside := asideName(dir)
	if exists(aside) && !exists(dir) {
		return os.Rename(aside, dir)
	}
	return os.RemoveAll(aside)
}

// Survivor returns the directory that a reader of dir must open: dir, or the old
// one if a crash between the two renames of ReplaceDir left no dir.
func Survivor(dir string) string {
	if exists(dir) || !exists(asideName(dir)) {
		return dir
	}
	return asideName(dir)
}

// asideName is the hidden name of the old directory between two renames.
func asideName(dir string) string {
	dir = filepath.Clean(dir)
	return filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".old")
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
