package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"assay/rewardmodel"
)

const (
	// readyTimeout is the default timeout of a Kubernetes probe.
	readyTimeout = time.Second
	// readyFor and unreadyFor are how long the result of a check is cached: a
	// request that needs no token costs NATS next to nothing, and the end of a start
	// shows soon.
	readyFor   = time.Second
	unreadyFor = 100 * time.Millisecond
	// recheckEvery is how often a running service runs the checks that /readyz does
	// not wait for.
	recheckEvery = 5 * time.Second
)

// errChecking is the result of a check that has not completed yet.
var errChecking = errors.New("the check is still running")

// readiness runs the checks for all callers. It is also the collector of
// assay_check_ready.
type readiness struct {
	checks  []*checked
	started atomic.Bool // all have passed together once
	gauge   *prometheus.Desc
}

// checked is a check and its last result. Only one run is in progress at a time, and
// none starts while the result is fresh.
type checked struct {
	Check
	log     zerolog.Logger
	running chan struct{} // holds a token while it runs

	mu  sync.Mutex
	err error
	at  time.Time
}

func newReadiness(checks []Check, log zerolog.Logger) *readiness {
	r := &readiness{gauge: prometheus.NewDesc("assay_check_ready",
		"1 if a dependency of the service is ready, otherwise 0.", []string{"check"}, nil)}
	for _, c := range checks {
		r.checks = append(r.checks, &checked{
			Check: c, running: make(chan struct{}, 1), err: errChecking,
			log: log.With().Str("check", c.Name).Logger(),
		})
	}
	return r
}

// known returns the last result.
func (c *checked) known() (err error, fresh bool) { //nolint:revive,staticcheck // the error is the value
	c.mu.Lock()
	defer c.mu.Unlock()
	keep := readyFor
	if c.err != nil {
		keep = unreadyFor
	}
	return c.err, !c.at.IsZero() && time.Since(c.at) < keep
}

// fresh returns a fresh result, or the last one if there is none before the deadline
// or the end of ctx.
func (c *checked) fresh(ctx context.Context, deadline time.Time) error {
	waiting, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	last, ok := c.known()
	if ok || waiting.Err() != nil {
		return last
	}
	select {
	case c.running <- struct{}{}:
		defer func() { <-c.running }()
	case <-waiting.Done():
		last, _ = c.known()
		return last
	}
	before, ok := c.known()
	if ok { // another caller has run it
		return before
	}
	// Others wait for the result as well, so that it does not end with one caller.
	bounded, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	err := c.Ready(bounded)
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.at.IsZero()
	c.err, c.at = err, time.Now()
	switch {
	case !first && err != nil && before == nil:
		c.log.Warn().Err(err).Msg("a dependency of the service is no longer ready")
	case !first && err == nil && before != nil:
		c.log.Info().Msg("a dependency of the service is ready")
	}
	return err
}

// condition is the state of the checks, by name.
type condition struct {
	texts map[string]string
	err   error // wraps rewardmodel.ErrNotReady and names all failed checks
}

// get runs the checks that count for a caller: those that always do, all of them
// until the service has started, and those in also. For the others it returns the
// last result.
func (r *readiness) get(ctx context.Context, also ...string) condition {
	deadline := time.Now().Add(readyTimeout)
	started, all := r.started.Load(), true
	now := condition{texts: make(map[string]string, len(r.checks))}
	var missing []string
	for _, c := range r.checks {
		counts := !started || !c.AtStart || slices.Contains(also, c.Name)
		err, _ := c.known()
		if counts {
			err = c.fresh(ctx, deadline)
		}
		now.texts[c.Name] = "ok"
		if err == nil {
			continue
		}
		now.texts[c.Name], all = err.Error(), false
		if counts {
			missing = append(missing, c.Name+" ("+err.Error()+")")
		}
	}
	if all {
		r.started.Store(true)
	}
	if len(missing) > 0 {
		now.err = fmt.Errorf("%w: %s", rewardmodel.ErrNotReady, strings.Join(missing, ", "))
	}
	return now
}

// names returns the names of all checks.
func (r *readiness) names() []string {
	names := make([]string, len(r.checks))
	for i, c := range r.checks {
		names[i] = c.Name
	}
	return names
}

// watch keeps the checks that /readyz shows but does not wait for current, until ctx
// ends.
func (r *readiness) watch(ctx context.Context) {
	tick := time.NewTicker(recheckEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, c := range r.checks {
			if c.AtStart && r.started.Load() {
				_ = c.fresh(ctx, time.Now().Add(readyTimeout)) // cached
			}
		}
	}
}

// Describe implements prometheus.Collector.
func (r *readiness) Describe(to chan<- *prometheus.Desc) { to <- r.gauge }

// Collect implements prometheus.Collector.
func (r *readiness) Collect(to chan<- prometheus.Metric) {
	deadline := time.Now().Add(readyTimeout)
	for _, c := range r.checks {
		value := 1.0
		if c.fresh(context.Background(), deadline) != nil {
			value = 0
		}
		to <- prometheus.MustNewConstMetric(r.gauge, prometheus.GaugeValue, value, c.Name)
	}
}
