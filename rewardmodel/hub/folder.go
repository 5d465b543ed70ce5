package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// gatherSuffix names the folder beside the final one in which a pull gathers
// its files, and where a later pull finds what a killed one has left.
const gatherSuffix = ".pulling"

// target follows links, and undoes a replacement that a crash cut in two.
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
	if aside := asideName(dir); !exists(dir) && exists(aside) {
		return dir, os.Rename(aside, dir)
	}
	return dir, nil
}

// asideName is where the old folder waits while the new one takes its place;
// checkpoint.Open looks there as well.
func asideName(dir string) string {
	return filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".old")
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// gather makes the folder that a pull fills, and locks it until release.
func gather(dir string) (path string, release func() error, err error) {
	path = dir + gatherSuffix
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", nil, err
	}
	folder, err := os.Open(path)
	if err != nil {
		return "", nil, err
	}
	err = unix.Flock(int(folder.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = fmt.Errorf("another pull is filling %s; wait for it, or choose another folder: %w", path, ErrOccupied)
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, unix.ENOLCK):
		err = nil // a file system without locks: its users must take turns
	}
	if err != nil {
		return "", nil, errors.Join(err, folder.Close())
	}
	return path, folder.Close, nil
}

// install puts the gathered folder, less whatever is not of the receipt, in the
// place of dir.
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
	if err := syncFolder(gathered); err != nil {
		return err
	}
	aside := asideName(dir)
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	if err := os.Rename(dir, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(gathered, dir); err != nil {
		if back := os.Rename(aside, dir); !errors.Is(back, fs.ErrNotExist) {
			err = errors.Join(err, back)
		}
		return err
	}
	if err := syncFolder(filepath.Dir(dir)); err != nil {
		return err
	}
	_ = os.RemoveAll(aside) // the next pull tries again
	return nil
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
