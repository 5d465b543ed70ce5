package versions

import (
	"context"
	"fmt"
	"time"

	"assay/rewardmodel"
)

// reserveMemory waits until the given bytes fit within the limits, as Set
// describes. One load at a time calls it.
func (v *Set) reserveMemory(ctx context.Context, e *entry, bytes int64) error {
	for {
		wait, err := v.tryReserve(e, bytes)
		if wait == nil || err != nil {
			return err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryReserve makes versions leave until bytes more fit. It returns nil when they
// fit, or else when to try again.
func (v *Set) tryReserve(e *entry, bytes int64) (wait <-chan struct{}, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	count := v.config.MaxLoaded
	if e.promotion {
		count++
	}
	fits := func(held held) bool { return held.count < count && v.within(held.bytes+bytes) }
	if fits(v.held(resident, evicting)) {
		e.bytes = bytes
		return nil, nil
	}
	if !e.promotion {
		if !fits(v.held(busy)) {
			return nil, v.insufficientMemory(bytes)
		}
	}
	for !fits(v.held(resident)) {
		victim := v.leastRecentlyUsed(e.promotion)
		if victim == nil {
			break // only the current one remains
		}
		v.evict(victim)
	}
	if len(v.evicting) > 0 {
		return v.changed, nil
	}
	e.bytes = bytes
	return nil, nil
}

func (v *Set) within(bytes int64) bool {
	return v.config.MaxBytes == 0 || bytes <= v.config.MaxBytes
}

// insufficientMemory describes why there is not enough memory for a pinned version.
func (v *Set) insufficientMemory(bytes int64) error {
	if v.current != nil && !v.within(v.current.bytes+bytes) {
		return fmt.Errorf("it needs %d bytes in addition to the %d bytes of the current model, which exceeds the limit of %d; raise the limit", bytes, v.current.bytes, v.config.MaxBytes)
	}
	return &rewardmodel.OverloadedError{RetryAfter: time.Second, Reason: "no memory for another model version: all loaded versions are in use"}
}

type held struct {
	count int
	bytes int64
}

// state is the state of a version in memory; busy versions are also resident.
type state int

const (
	resident state = iota
	evicting
	busy // resident, and current or in use
)

// held sums the versions in memory that are in one of the states.
func (v *Set) held(states ...state) (sum held) {
	add := func(e *entry) {
		sum.count++
		sum.bytes += e.bytes
	}
	for _, s := range states {
		if s == evicting {
			for e := range v.evicting {
				add(e)
			}
			continue
		}
		for _, e := range v.known {
			if e.ready() && (s == resident || e == v.current || e.uses > 0) {
				add(e)
			}
		}
	}
	return sum
}

// leastRecentlyUsed is the version that leaves next: the one that was used the longest
// ago of those that no request uses, or then, if asked for, of all; never the
// current one.
func (v *Set) leastRecentlyUsed(used bool) (victim *entry) {
	before := func(a, b *entry) bool {
		if (a.uses == 0) != (b.uses == 0) {
			return a.uses == 0
		}
		return a.last < b.last
	}
	for _, e := range v.known {
		if !e.ready() || e == v.current || e.uses > 0 && !used {
			continue
		}
		if victim == nil || before(e, victim) {
			victim = e
		}
	}
	return victim
}

// trim evicts versions until the limits are met.
func (v *Set) trim() {
	for {
		held := v.held(resident)
		if held.count <= v.config.MaxLoaded && v.within(held.bytes) {
			return
		}
		victim := v.leastRecentlyUsed(false)
		if victim == nil {
			return // the next release tries again
		}
		v.evict(victim)
	}
}

// leave takes a version away from new requests, and frees it after its last.
func (v *Set) evict(e *entry) {
	v.forget(e)
	v.evicting[e] = true
	if e.uses == 0 {
		v.free(e)
	}
}

func (v *Set) forget(e *entry) {
	if v.known[e.version] == e {
		delete(v.known, e.version)
	}
}

// free closes a version that is evicting and no longer in use. It does so in a separate goroutine, since
// closing may wait for libtorch.
func (v *Set) free(e *entry) {
	go func() {
		err := e.loaded.close()
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.evicting, e)
		if err != nil {
			v.errs = append(v.errs, fmt.Errorf("freeing model version %s: %w", e.version, err))
		}
		v.broadcast()
	}()
}
