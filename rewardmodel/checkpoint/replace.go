package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// replaceFolder lets fill build a folder and puts it in the place of dir.
//
// While it is built it is ".<name>.new-<random>" beside dir, held by a lock, so
// that what a killed process left behind is told from what a living one
// builds. The lock on the parent orders writers; a reader needs none.
func replaceFolder(dir string, fill func(tmp string) error) error {
	dir, err := target(dir)
	if err != nil {
		return err
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	tmp, held, err := begin(parent, dir)
	if err != nil {
		return err
	}
	defer held.Close()
	err = fill(tmp)
	if err == nil {
		err = held.Sync()
	}
	if err == nil {
		err = swap(parent, tmp, dir)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(tmp))
	}
	return nil
}

// target follows links to the folder and refuses to replace anything that is
// not a checkpoint.
func target(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) && !exists(dir) {
		return dir, nil
	}
	if err != nil {
		return "", err
	}
	config := filepath.Join(real, "config.json")
	if exists(config) {
		return real, nil
	}
	entries, err := os.ReadDir(real)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // another writer removes the folder that it has just replaced
		return "", err
	}
	if len(entries) > 0 && !exists(config) {
		return "", fmt.Errorf("the folder holds other files and no checkpoint; choose another")
	}
	return real, nil
}

// begin clears what killed writers left, then makes and locks a new temporary
// folder.
func begin(parent, dir string) (tmp string, held *os.File, err error) {
	unlock, err := lockFolder(parent)
	if err != nil {
		return "", nil, err
	}
	defer unlock()
	prefix := "." + filepath.Base(dir) + ".new-"
	if err := sweep(parent, prefix); err != nil {
		return "", nil, err
	}
	aside := asideName(dir)
	if exists(aside) && !exists(dir) {
		err = os.Rename(aside, dir)
	} else {
		err = os.RemoveAll(aside)
	}
	if err != nil {
		return "", nil, err
	}
	tmp, err = os.MkdirTemp(parent, prefix)
	if err != nil {
		return "", nil, err
	}
	if held, err = os.Open(tmp); err == nil {
		if err = lock(held); err == nil {
			err = held.Chmod(0o755)
		}
		if err == nil {
			return tmp, held, nil
		}
		held.Close()
	}
	return "", nil, errors.Join(err, os.Remove(tmp))
}

// sweep removes the temporary folders that nobody holds.
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
		file, err := os.Open(path)
		if err != nil {
			continue // gone, or another user's
		}
		if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			err = os.RemoveAll(path)
		}
		file.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// swap puts tmp in the place of dir and removes what was there. Where the file
// system cannot exchange two folders in one step there is a moment without
// dir; after a crash in it, Open and the next Write find the old one aside.
func swap(parent, tmp, dir string) error {
	unlock, err := lockFolder(parent)
	if err != nil {
		return err
	}
	defer unlock()
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
	if err := syncFolder(parent); err != nil {
		return err
	}
	if old != "" {
		_ = os.RemoveAll(old) // the next Write tries again
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
		return errors.Join(err, os.Rename(aside, dir))
	}
	return nil
}

// lockFolder waits for the lock on a folder.
func lockFolder(path string) (unlock func() error, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := lock(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file.Close, nil
}

// lock takes an advisory lock that ends with the file. A file system without
// locks gets none: its writers must not share a folder.
func lock(file *os.File) error {
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.ENOLCK) {
			return nil
		}
		return err
	}
}

func syncFolder(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
