package labels

import (
	"context"
	"maps"
	"sync"

	"assay/queue/internal/js"
	"assay/rewardmodel/feedback"
)

// pendingErasures are the ids of tombstones that were read, until their records are
// removed. They cover a process that dies during an erasure, and records that a
// process stored before it knew of the tombstone.
type pendingErasures struct {
	mu   *sync.Mutex
	ids  map[feedback.Hash]bool // true: the tombstone was overwritten
	wake chan struct{}
}

func newPendingErasures() pendingErasures {
	return pendingErasures{mu: new(sync.Mutex), ids: map[feedback.Hash]bool{}, wake: make(chan struct{}, 1)}
}

// add adds an id, and whether its tombstone must be stored again.
func (p pendingErasures) add(id feedback.Hash, overwritten bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids[id] = p.ids[id] || overwritten
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// take returns all ids and removes them.
func (p pendingErasures) take() map[feedback.Hash]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := maps.Clone(p.ids)
	clear(p.ids)
	return ids
}

// eraseLoop finishes pending erasures until ctx ends.
func (l *Log) eraseLoop(ctx context.Context) {
	for failures := uint64(0); ctx.Err() == nil; {
		select {
		case <-l.erasures.wake:
		case <-ctx.Done():
			return
		}
		failed := error(nil)
		for id, overwritten := range l.erasures.take() {
			err := l.remove(ctx, id)
			if err == nil && overwritten {
				err = l.putTombstone(ctx, id)
			}
			if err != nil {
				failed = err
				l.erasures.add(id, overwritten)
			}
		}
		if failed == nil {
			failures = 0
			continue
		}
		failures++
		if ctx.Err() == nil {
			l.log.Warn().Err(failed).Msg("cannot remove erased records; retrying")
			js.Sleep(ctx, backoff().Delay(failures))
		}
	}
}
