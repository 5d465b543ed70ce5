package retrain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/xid"
	"github.com/rs/zerolog"

	"assay/rewardmodel/feedback"
)

// Config sets up a Loop. Durations that are zero have the default beside them.
type Config struct {
	Replica  string        // who we are, the same after a restart on the same folder
	Dir      string        // trainings live in folders below it
	Interval time.Duration // between two looks at the situation; 1s
	Beat     time.Duration // between two renewals of the lease; 2s
	TTL      time.Duration // after which a silent training is taken over; 15s
	MaxBags  int           // trained on at most, the new ones first; 20000
	Probe    int           // texts that the shift of the rewards is measured on; 400
	Attempts int           // of a training whose process is killed; 3
	Keep     int           // promoted versions whose files are kept; 10
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
	or(&c.Beat, 2*time.Second)
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
	Statuses Statuses
	Models   Models
	Currents Currents
	Holdout  Holdout
	Journal  Journal
	Labels   Labels
	Folders  Folders
	Worker   Worker
	Signals  Signals
	Recent   Recent // nil: none are kept
}

// Loop trains when its policy says so, one training at a time in the whole
// fleet. Every step may be the last one of the process: what is done is in the
// status and in the training's folder, and the next Run, here or on another
// replica, goes on from there.
type Loop struct {
	Parts
	cfg     Config
	policy  Policy
	log     zerolog.Logger
	seen    sighting
	counts  counts
	salt    salt
	trouble error // what ended the last attempt of the training run in flight, here
}

// salt remembers the secret of the hold-out.
type salt struct {
	mu    sync.Mutex
	value []byte
}

// counts remembers the statistics of the feedback, which take a while to count,
// until there is more of it.
type counts struct {
	mu          sync.Mutex
	last, since uint64
	stats       feedback.Stats
}

// NewLoop makes a loop that does nothing until Run.
func NewLoop(cfg Config, policy Policy, parts Parts, log zerolog.Logger) *Loop {
	return &Loop{Parts: parts, cfg: cfg.withDefaults(), policy: policy, log: log}
}

// Run watches and trains until ctx ends, and then stops the training in hand,
// which the next Run takes up. What goes wrong is logged and tried again.
func (l *Loop) Run(ctx context.Context) error {
	tick := time.NewTicker(l.cfg.Interval)
	defer tick.Stop()
	var told string // the last trouble, said once
	for {
		err := l.once(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			told = ""
		case err.Error() != told:
			told = err.Error()
			l.log.Warn().Err(err).Msg("retraining is held up; trying again")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// once looks at the situation and carries a training through if it is our turn.
func (l *Loop) once(ctx context.Context) error {
	status, err := l.Statuses.Status(ctx)
	if err != nil {
		return err
	}
	if status.Phase != PhaseIdle && status.Phase != "" {
		return l.takeUp(ctx, status)
	}
	if err := l.sweep(""); err != nil {
		return err
	}
	current, err := l.Currents.Current(ctx)
	if err != nil {
		return err
	}
	if current.Revision == 0 {
		return nil // no service has said yet what it was started with
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
	if status.Asked != nil && decision.Trigger == TriggerManual {
		next.By, next.Refreeze = status.Asked.By, status.Asked.Refreeze
	} else {
		next.Asked = status.Asked
	}
	next, err = l.Statuses.SetStatus(ctx, next)
	if errors.Is(err, ErrChanged) {
		return nil // another replica was faster
	}
	if err != nil {
		return err
	}
	return l.carry(ctx, next, "")
}

// takeUp goes on with a training that is ours since before a restart, or whose
// owner is silent.
func (l *Loop) takeUp(ctx context.Context, status Status) error {
	why := "its process was restarted"
	if status.Owner != l.cfg.Replica {
		if !l.seen.stale(status, time.Now(), l.cfg.TTL) {
			return nil
		}
		why = fmt.Sprintf("replica %s was silent for %v", status.Owner, l.cfg.TTL)
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
	return l.carry(ctx, status, why)
}

// carry runs the training of status, which was just written, to its end.
// resumed says why it is taken up, "" for a new one.
func (l *Loop) carry(ctx context.Context, status Status, resumed string) error {
	working, lose := context.WithCancelCause(ctx)
	held := &lease{store: l.Statuses, beat: l.cfg.Beat, ttl: l.cfg.TTL, now: time.Now, status: status, renewed: time.Now()}
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		held.hold(working, lose)
	}()
	defer func() {
		lose(nil)
		<-beating
	}()
	t := &training{Loop: l, lease: held, id: status.ID, dir: filepath.Join(l.cfg.Dir, status.ID),
		log: l.log.With().Str("training", status.ID).Logger()}
	if err := l.sweep(status.ID); err != nil {
		return err
	}
	outcome, err := t.runTold(working, resumed)
	if cause := context.Cause(working); err != nil && cause != nil {
		err = cause
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err() // the next process takes it up
	case errors.Is(err, ErrLeaseLost):
		return err
	case err != nil && !t.final(err):
		l.trouble = err
		return err
	case err != nil:
		if outcome, err = t.failed(working, err); err != nil {
			return err
		}
	}
	l.trouble = nil
	return t.finish(working, outcome)
}

// Outlook says what the loop would do now, and what it waits for.
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

// situation gathers what the policy looks at.
func (l *Loop) situation(ctx context.Context, status Status, current Current) (Situation, error) {
	split, err := l.split(ctx)
	if err != nil {
		return Situation{}, err
	}
	var since uint64
	if status.Last != nil {
		since = status.Last.Through
	}
	return Situation{
		Now: time.Now(), Status: status, Since: current.Since,
		Stats: l.stats(split, since),
		Drift: l.Signals.Drift(), Disagreement: l.Signals.Disagreement(),
	}, nil
}

// split divides the responses as every replica does.
func (l *Loop) split(ctx context.Context) (feedback.Split, error) {
	l.salt.mu.Lock()
	defer l.salt.mu.Unlock()
	if l.salt.value == nil {
		value, err := l.Holdout.HoldoutSalt(ctx)
		if err != nil {
			return feedback.Split{}, fmt.Errorf("the salt of the hold-out: %w", err)
		}
		l.salt.value = value
	}
	return feedback.Split{Share: l.policy.HoldoutShare, Salt: l.salt.value}, nil
}

func (l *Loop) stats(split feedback.Split, since uint64) feedback.Stats {
	l.counts.mu.Lock()
	defer l.counts.mu.Unlock()
	index := l.Labels.Index()
	if last := index.Last(); last != l.counts.last || since != l.counts.since || last == 0 {
		l.counts.stats = index.Stats(split, since)
		l.counts.last, l.counts.since = last, since
	}
	return l.counts.stats
}

// sweep removes the folders of trainings other than id: their texts are not to
// stay.
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
