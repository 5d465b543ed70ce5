package fleet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rs/xid"

	"assay/internal/durable"
)

// Replica is who this process is among those that share a NATS server: a directory of its own, whose name is its id. It
// is the same after a restart, so that a training goes on where its process died.
type Replica struct {
	ID   string
	dir  string
	lock *durable.Lock
}

// ClaimReplica takes the first directory below dataDir/replicas that no living process holds, or makes one.
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
	return nil, fmt.Errorf("--data-dir %s: no folder for this replica", dataDir) // not reached: a fresh id is free
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

// trainings is the directory of training runs.
func (r *Replica) trainings() string { return filepath.Join(r.dir, "training") }

// Journal names the streamed responses in flight.
func (r *Replica) Journal() string { return filepath.Join(r.dir, "in-flight") }

// Release leaves the directory to another process.
func (r *Replica) Release() error { return r.lock.Unlock() }
