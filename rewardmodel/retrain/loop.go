package retrain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rs/xid"
	"github.com/rs/zerolog"

	"assay/internal/trace"
	"assay/rewardmodel/feedback"
)

// Config sets up a Loop. Durations that are zero have the default that their comment gives.
type Config struct {
	Replica   string        // ID of this replica, the same after a restart with the same data directory
	Dir       string        // parent of the directories of the training runs
	Interval  time.Duration // between two evaluations of the policy; 1s
	Heartbeat time.Duration // between two renewals of the lease; 2s
	TTL       time.Duration // without a heartbeat, after which another replica takes over a training run; 15s
	MaxBags   int           // maximum to train on, the new ones first; 20000
	Probe     int           // texts on which the shift of the rewards is measured; 400
	Attempts  int           // of a training run whose process is killed; 3
	Keep      int           // promoted versions whose files are kept; 10
	Metrics   *Metrics      // nil: none
	Tracer    *trace.Tracer // of the training runs; nil: none
	// Settings describe the recipe in the record of a model.
	Settings map[string]any
}

func (c Config) withDefaults() Config {
	or := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	or(&c.Interval, time.Second)
	or(&c.Heartbeat, 2*time.Second)
	or(&c.TTL, 15*time.Second)
	orInt := func(n *int, value int) {
		if *n == 0 {
			*n = value
		}
	}
	orInt(&c.MaxBags, 20000)
	orInt(&c.Probe, 400)
	orInt(&c.Attempts, 3)
	orInt(&c.Keep, 10)
	return c
}

// Parts are what a Loop works with.
type Parts struct {
	Statuses    Statuses
	Models      Models
	Currents    Currents
	Holdout     Holdout
	Journal     Journal
	Labels      Labels
	Directories Directories
	Worker      Worker
	Signals     Signals
	Recent      Recent // nil: none are kept
}

// Loop trains when its policy says so, with one training run at a time in the
// whole fleet. The process may die after any step: the status and the directory
// of the training run record what is done, and the next Run, here or on another
// replica, resumes from there.
type Loop struct {
	Parts
	cfg       Config
	policy    Policy
	log       zerolog.Logger
	staleness staleness
	counts    counts
	salt      salt
	names     names
	lastError error // what ended the last attempt of the current training run on this replica
}

// salt caches the secret of the hold-out.
type salt struct {
	mu    sync.Mutex
	value []byte
}

// names caches the aspects of the current version.
type names struct {
	mu      sync.Mutex
	version string
	aspects []string
}

// counts caches the statistics of the feedback, which are slow to count, until
// the feedback changes.
type counts struct {
	mu             sync.Mutex
	index          *feedback.Index // which another one may replace
	changes, since uint64
	aspects        []string
	stats          feedback.Stats
}

// NewLoop returns a loop that does nothing until Run.
func NewLoop(cfg Config, policy Policy, parts Parts, log zerolog.Logger) *Loop {
	return &Loop{Parts: parts, cfg: cfg.withDefaults(), policy: policy, log: log}
}

// Run evaluates the policy and trains until ctx ends. It then stops the current
// training run, which the next Run resumes. Run logs errors and retries.
func (l *Loop) Run(ctx context.Context) error {
	l.cfg.Metrics.begin()
	tick := time.NewTicker(l.cfg.Interval)
	defer tick.Stop()
	var logged string // the last error, logged once
	for {
		err := l.once(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			logged = ""
		case err.Error() != logged:
			logged = err.Error()
			l.log.Warn().Err(err).Msg("retraining failed for now; retrying")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// once evaluates the policy, and executes a training run if this replica owns one.
func (l *Loop) once(ctx context.Context) error {
	status, err := l.Statuses.Status(ctx)
	if err != nil {
		return err
	}
	l.cfg.Metrics.phase(status.Phase)
	if status.Phase != PhaseIdle && status.Phase != "" {
		return l.resume(ctx, status)
	}
	if err := l.sweep(""); err != nil {
		return err
	}
	current, err := l.Currents.Current(ctx)
	if err != nil {
		return err
	}
	if current.Revision == 0 {
		return nil // no service has registered its initial model yet
	}
	situation, err := l.situation(ctx, status, current)
	if err != nil {
		return err
	}
	decision := l.policy.Decide(situation)
	if decision.Trigger == TriggerNone {
		return nil
	}
	next := Status{
		Phase: PhaseCollecting, ID: xid.New().String(), Owner: l.cfg.Replica,
		Trigger: decision.Trigger, Reason: decision.Reason,
		Started: time.Now().UTC(), Updated: time.Now().UTC(), Base: current.Version,
		Through: l.Labels.Index().Last(), Attempt: 1, Last: status.Last, Revision: status.Revision,
	}
	if status.Requested != nil && decision.Trigger == TriggerManual {
		next.By, next.Refreeze = status.Requested.By, status.Requested.Refreeze
	} else {
		next.Requested = status.Requested
	}
	next, err = l.Statuses.SetStatus(ctx, next)
	if errors.Is(err, ErrChanged) {
		return nil // another replica was faster
	}
	if err != nil {
		return err
	}
	l.lastError = nil // of a training run that another replica has ended
	return l.execute(ctx, next, "")
}

// resume continues a training run that this replica owned before a restart or a
// retryable error, or whose owner sends no heartbeat.
func (l *Loop) resume(ctx context.Context, status Status) error {
	why := "its process was restarted"
	if l.lastError != nil {
		why = fmt.Sprintf("its last attempt failed: %v", l.lastError)
	}
	if status.Owner != l.cfg.Replica {
		if !l.staleness.check(status, time.Now(), l.cfg.TTL) {
			return nil
		}
		why = fmt.Sprintf("replica %s sent no heartbeat for %v", status.Owner, l.cfg.TTL)
	}
	status.Owner, status.Updated = l.cfg.Replica, time.Now().UTC()
	status.Attempt++
	status, err := l.Statuses.SetStatus(ctx, status)
	if errors.Is(err, ErrChanged) {
		return nil
	}
	if err != nil {
		return err
	}
	return l.execute(ctx, status, why)
}

// execute completes the training run of status, which was just stored. resumed
// is why it is resumed, "" for a new one.
func (l *Loop) execute(ctx context.Context, status Status, resumed string) (err error) {
	ctx, span := l.beginSpan(ctx, status)
	var outcome Outcome
	defer func() { endSpan(span, outcome, err) }()
	working, lose := context.WithCancelCause(ctx)
	held := &lease{store: l.Statuses, metrics: l.cfg.Metrics, heartbeat: l.cfg.Heartbeat, ttl: l.cfg.TTL, now: time.Now, status: status, renewed: time.Now()}
	l.cfg.Metrics.phase(status.Phase)
	released := make(chan struct{})
	go func() {
		defer close(released)
		held.hold(working, lose)
	}()
	defer func() {
		lose(nil)
		<-released
	}()
	t := &trainingRun{Loop: l, lease: held, id: status.ID, dir: filepath.Join(l.cfg.Dir, status.ID),
		log: logOf(l.log, status.ID, span)}
	if err := l.sweep(status.ID); err != nil {
		return err
	}
	outcome, err = t.complete(working, resumed)
	if cause := context.Cause(working); err != nil && cause != nil {
		err = cause
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err() // the next process resumes it
	case errors.Is(err, errCanceled):
		lose(err)
		<-released
		held.end()
		outcome, err = t.cancel(ctx)
	}
	return err
}

// Outlook returns what the loop would do now, and what it waits for.
func (l *Loop) Outlook(ctx context.Context) (Situation, Decision, error) {
	status, err := l.Statuses.Status(ctx)
	if err != nil {
		return Situation{}, Decision{}, err
	}
	current, err := l.Currents.Current(ctx)
	if err != nil {
		return Situation{}, Decision{}, err
	}
	s, err := l.situation(ctx, status, current)
	if err != nil {
		return Situation{}, Decision{}, err
	}
	return s, l.policy.Decide(s), nil
}

// situation collects the input of the policy.
func (l *Loop) situation(ctx context.Context, status Status, current Current) (Situation, error) {
	split, err := l.split(ctx)
	if err != nil {
		return Situation{}, err
	}
	var since uint64
	if status.Last != nil {
		since = status.Last.Through
	}
	aspects, err := l.aspects(ctx, current.Version)
	if err != nil {
		return Situation{}, err
	}
	return Situation{
		Now: time.Now(), Status: status, Since: current.Since, Aspects: aspects,
		Stats: l.stats(split, since, aspects),
		Drift: l.Signals.Drift(), Disagreement: l.Signals.Disagreement(),
	}, nil
}

// aspects returns the names of the aspects of a version; nil: it has one without a
// name, or was registered by a release that knew only one.
func (l *Loop) aspects(ctx context.Context, version string) ([]string, error) {
	l.names.mu.Lock()
	defer l.names.mu.Unlock()
	if version == l.names.version { // "", before any is current, has none
		return l.names.aspects, nil
	}
	m, err := l.Models.Model(ctx, version)
	if err != nil && !errors.Is(err, ErrNoModel) {
		return nil, fmt.Errorf("the aspects of %s: %w", version, err)
	}
	if err == nil {
		l.names.version, l.names.aspects = version, m.Aspects
	}
	return m.Aspects, nil
}

// split returns the division of the responses, which is the same on every replica.
func (l *Loop) split(ctx context.Context) (feedback.Split, error) {
	l.salt.mu.Lock()
	defer l.salt.mu.Unlock()
	if l.salt.value == nil {
		value, err := l.Holdout.HoldoutSalt(ctx)
		if err != nil {
			return feedback.Split{}, fmt.Errorf("reading the salt of the hold-out: %w", err)
		}
		l.salt.value = value
	}
	return feedback.Split{Share: l.policy.HoldoutShare, Salt: l.salt.value, MaxSenderShare: l.policy.MaxSenderShare}, nil
}

func (l *Loop) stats(split feedback.Split, since uint64, aspects []string) feedback.Stats {
	l.counts.mu.Lock()
	defer l.counts.mu.Unlock()
	index := l.Labels.Index()
	changes := index.Changes() // before they are counted
	if index != l.counts.index || changes != l.counts.changes || since != l.counts.since || !slices.Equal(aspects, l.counts.aspects) {
		l.counts.stats = index.Stats(split, since, aspects...)
		l.counts.index, l.counts.changes, l.counts.since, l.counts.aspects = index, changes, since, aspects
	}
	return l.counts.stats
}

// sweep removes the directories of training runs other than id, because they
// contain texts of users.
func (l *Loop) sweep(id string) error {
	entries, err := os.ReadDir(l.cfg.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if id == "" || e.Name() != id {
			if err := os.RemoveAll(filepath.Join(l.cfg.Dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
