package queue

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrDataDirLocked says that another process uses the same data directory. Two servers on
// one store would corrupt it.
var ErrDataDirLocked = errors.New("the data directory is in use by another assay process")

// lockFile holds an advisory lock that the kernel drops with the process, so
// that a kill -9 never leaves a stale one.
type lockFile struct{ file *os.File }

func lockDir(dir string) (*lockFile, error) {
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--data-dir %s: %w", dir, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(path)
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("--data-dir %s: %w (process %s); stop it or choose another directory",
				dir, ErrDataDirLocked, strings.TrimSpace(string(holder)))
		}
		return nil, fmt.Errorf("--data-dir %s: cannot lock: %w", dir, err)
	}
	// The process id is only for the message above.
	if err := errors.Join(f.Truncate(0), writeAt(f, fmt.Sprintln(os.Getpid()))); err != nil {
		f.Close()
		return nil, fmt.Errorf("--data-dir %s: %w", dir, err)
	}
	return &lockFile{f}, nil
}

func writeAt(f *os.File, s string) error {
	_, err := f.WriteAt([]byte(s), 0)
	return err
}

// release drops the lock. The file stays: removing it would let two processes
// lock two different files of the same name.
func (l *lockFile) release() error {
	if err := l.file.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
