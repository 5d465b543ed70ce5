package fleet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rs/xid"

	"assay/internal/durable"
)

// Replica is the identity of this process among those that share a NATS server: an exclusive directory whose name is its
// ID. It persists across restarts, so that an interrupted training run resumes.
type Replica struct {
	ID   string
	dir  string
	lock *durable.Lock
}

// ClaimReplica locks the first directory in dataDir/replicas that no running process has locked, or creates one.
func ClaimReplica(dataDir string) (*Replica, error) {
	parent := filepath.Join(dataDir, "replicas")
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	ids := make([]string, 0, len(entries)+1)
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	for _, id := range append(ids, xid.New().String()) {
		r := &Replica{ID: id, dir: filepath.Join(parent, id)}
		err := r.claim()
		if errors.Is(err, durable.ErrLocked) {
			continue
		}
		return r, err
	}
	return nil, fmt.Errorf("--data-dir %s: no directory for this replica", dataDir) // unreachable: a new ID is free
}

func (r *Replica) claim() (err error) {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	if r.lock, err = durable.TryLock(filepath.Join(r.dir, "lock")); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	return nil
}

// trainingDir is the directory of training runs.
func (r *Replica) trainingDir() string { return filepath.Join(r.dir, "training") }

// Journal is the path of the journal of streamed responses in flight.
func (r *Replica) Journal() string { return filepath.Join(r.dir, "in-flight") }

// Release unlocks the directory for other processes.
func (r *Replica) Release() error { return r.lock.Unlock() }
