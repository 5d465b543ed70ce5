package durable

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrLocked reports that another process, or another Lock of this one, holds the
// lock.
var ErrLocked = errors.New("locked by another process")

// ErrNoLocks reports that the file system has no locks. Callers that only guard
// against a race may continue without one.
var ErrNoLocks = errors.New("the file system has no locks")

// Lock is an exclusive advisory lock on a file or a directory. The kernel releases
// it when the process ends for any reason. A nil Lock means that none was needed.
type Lock struct{ file *os.File }

// WaitLock locks the file or directory at path, and waits while it is locked. A file
// that does not exist is created with mode 0600. Unlock does not remove it, because two
// processes could then lock two files of the same name.
func WaitLock(path string) (*Lock, error) { return lock(path, unix.LOCK_EX) }

// TryLock is like WaitLock, but returns an error that wraps ErrLocked instead of
// waiting.
func TryLock(path string) (*Lock, error) { return lock(path, unix.LOCK_EX|unix.LOCK_NB) }

func lock(path string, how int) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // NFS locks only files that are open for writing
	if errors.Is(err, unix.EISDIR) {
		file, err = os.Open(path)
	}
	if err != nil {
		return nil, err
	}
	err = unix.EINTR
	for errors.Is(err, unix.EINTR) {
		err = unix.Flock(int(file.Fd()), how)
	}
	switch {
	case err == nil:
		return &Lock{file}, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		err = ErrLocked
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, unix.ENOLCK):
		err = ErrNoLocks
	}
	return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
}

// Unlock releases the lock. It may be called more than once.
func (l *Lock) Unlock() error {
	if l == nil {
		return nil
	}
	return ignoreClosed(l.file.Close())
}

// optional returns a nil Lock if the file system has no locks: writers must then not
// share a directory.
func optional(l *Lock, err error) (*Lock, error) {
	if errors.Is(err, ErrNoLocks) {
		return nil, nil
	}
	return l, err
}
