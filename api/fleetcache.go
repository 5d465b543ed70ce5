package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"assay/api/internal/eventlog"
	"assay/rewardmodel"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/retrain"
)

const (
	// readTimeout is how long a read of fleet state waits for NATS before it
	// returns the cached value.
	readTimeout = 750 * time.Millisecond
	// refreshTimeout bounds a read in the background.
	refreshTimeout = 10 * time.Second
	// refreshInterval is the minimum time between two of those.
	refreshInterval = 2 * time.Second
)

// errUnreachable reports that a backend did not respond within readTimeout, or that
// it cannot reach what it depends on.
var errUnreachable = errors.New("NATS cannot be reached")

// fleetCache holds the state that the fleet shares as this process last read it:
// reads return it while NATS is unreachable. Any backend may be nil.
type fleetCache struct {
	registry Registry
	trainer  Trainer
	feedback FeedbackView
	events   *eventlog.Log

	models   cached[fleetModels]
	training cached[Training]
	stats    cached[feedback.Stats]
}

// fleetModels is the content of the registry.
type fleetModels struct {
	current retrain.Current
	records []retrain.Model
}

// cached is a value and when it was read.
type cached[T any] struct {
	mu    sync.Mutex
	value T
	at    time.Time // zero: never
}

func (c *cached[T]) set(value T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.value, c.at = value, time.Now()
}

func (c *cached[T]) get() (T, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value, c.at
}

// readFleet reads from a backend. Its error wraps errUnreachable if the cached
// value is the best that there is.
func readFleet[T any](ctx context.Context, fetch func(context.Context) (T, error)) (T, error) {
	short, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	value, err := fetch(short)
	if err != nil && ctx.Err() == nil && (short.Err() != nil || errors.Is(err, feedback.ErrUnavailable)) {
		err = fmt.Errorf("%w: %w: %w", rewardmodel.ErrNotReady, errUnreachable, err)
	}
	return value, err
}

// readCached reads from a backend, or returns the cached value while NATS is
// unreachable. The header Age then reports its age in seconds.
func readCached[T any](w http.ResponseWriter, r *http.Request, cache *cached[T], fetch func(context.Context) (T, error)) (T, error) {
	value, err := readFleet(r.Context(), fetch)
	if err == nil {
		cache.set(value)
		return value, nil
	}
	if last, at := cache.get(); errors.Is(err, errUnreachable) && !at.IsZero() {
		setAge(w, time.Since(at))
		return last, nil
	}
	return value, err
}

func setAge(w http.ResponseWriter, age time.Duration) {
	w.Header().Set("Age", strconv.Itoa(int(age.Seconds())))
}

// run keeps the cache current until ctx ends, so that a process that served no
// read yet has it as well: it reads at the start and after every event.
func (c *fleetCache) run(ctx context.Context) {
	for ctx.Err() == nil {
		changed := c.events.Changes()
		if c.refresh(ctx) != nil {
			changed = nil // again after the interval
		}
		interval := time.NewTimer(refreshInterval)
		select {
		case <-ctx.Done():
		case <-interval.C:
		}
		interval.Stop()
		if changed == nil {
			continue
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

func (c *fleetCache) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	var errs []error
	if c.registry != nil {
		errs = append(errs, refreshValue(ctx, &c.models, c.fetchModels))
	}
	if c.trainer != nil {
		errs = append(errs, refreshValue(ctx, &c.training, c.trainer.Training))
	}
	if c.feedback != nil {
		errs = append(errs, refreshValue(ctx, &c.stats, c.feedback.Stats))
	}
	return errors.Join(errs...)
}

func refreshValue[T any](ctx context.Context, cache *cached[T], fetch func(context.Context) (T, error)) error {
	value, err := fetch(ctx)
	if err == nil {
		cache.set(value)
	}
	return err
}

// fetchModels reads the registry.
func (c *fleetCache) fetchModels(ctx context.Context) (m fleetModels, err error) {
	if m.current, err = c.registry.Current(ctx); err != nil {
		return m, err
	}
	m.records, err = c.registry.Models(ctx)
	return m, err
}
