package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/durable"
)

// ErrDataDirLocked reports that another process uses the same data directory. Two servers on
// one store would corrupt it.
var ErrDataDirLocked = errors.New("the data directory is in use by another assay process")

// lockDataDir locks a data directory until its Unlock or the end of the process.
func lockDataDir(dir string) (*durable.Lock, error) {
	path := filepath.Join(dir, "lock")
	lock, err := durable.TryLock(path)
	if errors.Is(err, durable.ErrLocked) {
		holder, _ := os.ReadFile(path)
		return nil, fmt.Errorf("%s: %w (process %s); stop it or choose another directory", dir, ErrDataDirLocked, strings.TrimSpace(string(holder)))
	}
	if err != nil {
		return nil, err
	}
	// The process id is only for the message above.
	if err := os.WriteFile(path, fmt.Appendln(nil, os.Getpid()), 0o600); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return lock, nil
}

// DataDirHolder returns the process id of the service that uses a data directory for its
// embedded server, "" if none does. It creates nothing.
func DataDirHolder(dir string) (string, error) {
	path := filepath.Join(dir, "lock")
	if _, err := os.Stat(path); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return "", nil
		}
		return "", err
	}
	lock, err := durable.TryLock(path)
	if errors.Is(err, durable.ErrLocked) {
		holder, err := os.ReadFile(path)
		return strings.TrimSpace(string(holder)), err
	}
	if err != nil {
		return "", err
	}
	return "", lock.Unlock()
}
