package encoder

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"assay/rewardmodel"
)

// brokenAfter is for how long a model must fail on what it has computed before to count as broken: long enough for a lack of
// memory to pass.
const brokenAfter = 5 * time.Second

// health tells a model that fails on some sequence from one that fails on all, because a device has failed, memory is exhausted
// or damaged: only a restart helps the latter.
type health struct {
	mu      sync.Mutex
	known   []rewardmodel.Sequence // one that the model has computed; none before the first one
	failing time.Time              // since when it fails on it; zero: it does not
}

// succeeded records that the model has computed a batch.
func (h *health) succeeded(batch []rewardmodel.Sequence) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known == nil {
		h.known = []rewardmodel.Sequence{{IDs: slices.Clone(batch[0].IDs), Context: slices.Clone(batch[0].Context)}}
	}
	h.failing = time.Time{}
}

// failed records that the model has failed on a batch. It calls verify with what the model has computed before, and returns an
// error if the model is broken.
func (h *health) failed(now time.Time, verify func(known []rewardmodel.Sequence) error) error {
	h.mu.Lock()
	known := h.known
	h.mu.Unlock()
	if known == nil {
		return nil
	}
	err := verify(known)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.failing = time.Time{}
	case h.failing.IsZero():
		h.failing = now
	case now.Sub(h.failing) >= brokenAfter:
		return fmt.Errorf("for %v it has failed also on what it computed before: %w", now.Sub(h.failing).Round(time.Second), err)
	}
	return nil
}
