package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

const (
	// readyTimeout is the default timeout of a Kubernetes probe.
	readyTimeout = time.Second
	// readyFor and unreadyFor are how long the outcome of a check is kept. So
	// what anybody may ask without a token costs NATS next to nothing, and the
	// end of a start is seen soon.
	readyFor   = time.Second
	unreadyFor = 100 * time.Millisecond
	// recheckEvery is how often a running service looks at what /readyz does
	// not wait for.
	recheckEvery = 5 * time.Second
)

// readiness runs the checks for all that ask. It is also the collector of
// assay_check_ready.
type readiness struct {
	checks  []*checked
	started atomic.Bool // all have passed together once
	gauge   *prometheus.Desc
}

// checked is a check and its last outcome.
type checked struct {
	Check
	log     zerolog.Logger
	running sync.Mutex // held by the caller that runs it; the others wait for its outcome
	last    atomic.Pointer[checkResult]
}

// checkResult is how a check ended, and when.
type checkResult struct {
	err error
	at  time.Time // zero: never
}

func (r *checkResult) fresh() bool {
	keep := readyFor
	if r.err != nil {
		keep = unreadyFor
	}
	return time.Since(r.at) < keep
}

func newReadiness(checks []Check, log zerolog.Logger) *readiness {
	r := &readiness{gauge: prometheus.NewDesc("assay_check_ready",
		"1 when a part that the service depends on is ready, else 0.", []string{"check"}, nil)}
	for _, check := range checks {
		c := &checked{Check: check, log: log.With().Str("check", check.Name).Logger()}
		c.last.Store(&checkResult{})
		r.checks = append(r.checks, c)
	}
	return r
}

// run runs the check, unless its last outcome is fresh. The outcome is shared, so
// that no caller's context bounds it.
func (c *checked) run() error {
	c.running.Lock()
	defer c.running.Unlock()
	last := c.last.Load()
	if last.fresh() {
		return last.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	err := c.Ready(ctx)
	c.last.Store(&checkResult{err, time.Now()})
	switch {
	case last.at.IsZero():
	case err != nil && last.err == nil:
		c.log.Warn().Err(err).Msg("a part of the service is not ready any more")
	case err == nil && last.err != nil:
		c.log.Info().Msg("a part of the service is ready")
	}
	return err
}

// condition is how the checks are, by name.
type condition struct {
	texts map[string]string
	err   error // wraps ErrNotReady and names all that is missing
}

// get runs the checks that count for a caller: those that always do, all of
// them until the service has started, and those in also. Of the others it shows
// the last outcome.
func (r *readiness) get(also ...string) condition {
	started := r.started.Load()
	now := condition{texts: make(map[string]string, len(r.checks))}
	var missing []string
	for _, c := range r.checks {
		counts := !started || !c.AtStart || slices.Contains(also, c.Name)
		err := c.last.Load().err
		if counts {
			err = c.run()
		}
		now.texts[c.Name] = "ok"
		if err == nil {
			continue
		}
		now.texts[c.Name] = err.Error()
		if counts {
			missing = append(missing, c.Name+" ("+err.Error()+")")
		}
	}
	if len(missing) > 0 {
		now.err = fmt.Errorf("%w: %s", ErrNotReady, strings.Join(missing, ", "))
		return now
	}
	r.started.Store(true)
	return now
}

// names of all checks.
func (r *readiness) names() []string {
	names := make([]string, len(r.checks))
	for i, c := range r.checks {
		names[i] = c.Name
	}
	return names
}

// watch keeps what /readyz shows and does not wait for up to date, until ctx
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
				_ = c.run() // its outcome is kept
			}
		}
	}
}

// Describe implements prometheus.Collector.
func (r *readiness) Describe(to chan<- *prometheus.Desc) { to <- r.gauge }

// Collect implements prometheus.Collector.
func (r *readiness) Collect(to chan<- prometheus.Metric) {
	for _, c := range r.checks {
		value := 1.0
		if c.run() != nil {
			value = 0
		}
		to <- prometheus.MustNewConstMetric(r.gauge, prometheus.GaugeValue, value, c.Name)
	}
}
