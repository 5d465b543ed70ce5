package versions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"assay/rewardmodel"
)

// Bounds of the loads and failures that requests can cause.
const (
	maxLoads    = 16  // concurrent loads of pinned versions
	maxFailures = 256 // failed loads that are cached
)

// acquire returns a version with its use count incremented, and loads it if
// necessary. For a promotion, the version is then the current one. It became
// current when it was loaded, so that no request in between finds three versions
// where the limits allow two.
func (v *Set) acquire(ctx context.Context, version string, promotion bool) (*entry, error) {
	for {
		e, wait, err := v.find(version, promotion)
		if err != nil {
			return nil, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			if e == nil || !v.abandon(e, promotion) {
				return nil, canceled(ctx)
			}
		}
		switch {
		case e == nil: // an earlier copy of it was evicted
		case e.err == nil:
			return e, nil
		case promotion && !e.promotion: // it failed under the limits of a request
			v.release(e)
		default:
			v.release(e)
			return nil, e.err
		}
	}
}

// find returns the entry of a version with its use count incremented; it is loaded
// or failed once wait is closed. Without an entry, retry when wait is closed.
func (v *Set) find(version string, promotion bool) (e *entry, wait <-chan struct{}, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil, nil, rewardmodel.ErrClosed
	}
	for e := range v.evicting {
		if e.version == version {
			return nil, v.changed, nil // never twice in memory
		}
	}
	e = v.known[version]
	if e != nil && !e.loading() && e.err != nil && (promotion || time.Since(e.since) >= v.config.RememberFor) {
		delete(v.known, version)
		e = nil
	}
	if e == nil {
		if !promotion && v.loads >= maxLoads {
			return nil, nil, &rewardmodel.OverloadedError{RetryAfter: time.Second, Reason: "many model versions are being loaded"}
		}
		e = &entry{version: version, promotion: promotion, done: make(chan struct{}), since: time.Now()}
		v.known[version] = e
		v.loads++
		go v.load(e)
	}
	v.use(e)
	if promotion && e.ready() {
		v.setCurrent(e)
	}
	e.wanted = promotion || e.wanted
	return e, e.done, nil
}

// abandon ends the use of a caller that stops waiting for e, unless it is a
// promotion that has just succeeded.
func (v *Set) abandon(e *entry, promotion bool) (promoted bool) {
	v.mu.Lock()
	promoted = promotion && !e.loading()
	if promotion && !promoted {
		e.wanted = false
	}
	v.mu.Unlock()
	if !promoted {
		v.release(e)
	}
	return promoted
}

// use counts a use. Call it with mu held.
func (v *Set) use(e *entry) {
	e.uses++
	v.touch(e)
}

func (v *Set) touch(e *entry) {
	v.clock++
	e.last = v.clock
}

// release ends a use.
func (v *Set) release(e *entry) {
	v.mu.Lock()
	defer v.mu.Unlock()
	e.uses--
	v.touch(e)
	switch {
	case v.evicting[e] && e.uses == 0:
		v.free(e)
	case e.uses == 0:
		v.trim()
	}
}

// load loads e. It continues when the callers that wait for e cancel, so that a
// retry finds the version.
func (v *Set) load(e *entry) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(v.ctx, v.config.LoadTimeout)
	defer cancel()
	holds := false // the token of Set.reading
	room := func(bytes int64) error {
		if !holds {
			select {
			case v.reading <- struct{}{}:
				holds = true
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return v.reserveMemory(ctx, e, bytes)
	}
	loaded, err := v.loader.Load(ctx, e.version, room)
	if err == nil {
		err = check(loaded, e.version)
		if err == nil && !holds {
			err = room(loaded.Bytes)
		}
		if err != nil {
			err = errors.Join(err, loaded.close())
		}
	}
	v.metrics.loaded(time.Since(start), err)

	v.mu.Lock()
	defer v.mu.Unlock()
	if holds {
		<-v.reading
	}
	v.loads--
	e.since = time.Now()
	if err != nil {
		e.err = failure(v.closed, err)
	} else {
		e.loaded, e.bytes = loaded, loaded.Bytes
	}
	close(e.done)
	switch {
	case err != nil:
		v.remember(e)
	case v.closed:
		v.evict(e)
	case e.wanted:
		v.setCurrent(e)
		v.trim()
	default:
		v.trim()
	}
	v.broadcast()
}

func check(l Loaded, version string) error {
	switch {
	case l.Scorer == nil:
		return errors.New("the loader returned no scorer")
	case l.Info().Version != version:
		return fmt.Errorf("the loader returned version %q", l.Info().Version)
	}
	return nil
}

// failure is the error for the callers that wait for a failed load.
func failure(closed bool, err error) error {
	switch {
	case closed:
		return rewardmodel.ErrClosed
	case errors.Is(err, ErrUnknown) || errors.Is(err, rewardmodel.ErrOverloaded):
		return err
	}
	return fmt.Errorf("%w: %w", ErrLoad, err)
}

// remember caches a failure for a while, unless it is short-lived or too many are
// cached.
func (v *Set) remember(failed *entry) {
	failures := 0
	for version, e := range v.known {
		switch {
		case e.loading() || e.err == nil:
		case time.Since(e.since) >= v.config.RememberFor:
			delete(v.known, version)
		default:
			failures++
		}
	}
	if failures > maxFailures || errors.Is(failed.err, rewardmodel.ErrOverloaded) || errors.Is(failed.err, rewardmodel.ErrClosed) {
		v.forget(failed)
	}
}

// broadcast wakes the goroutines that wait for changed.
func (v *Set) broadcast() {
	close(v.changed)
	v.changed = make(chan struct{})
}

// canceled returns an error once the caller has canceled, and nil before.
func canceled(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("the caller canceled the request: %w", err)
	}
	return nil
}
