package fleet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"assay/internal/trace"
	"assay/queue"
	"assay/queue/labels"
	"assay/queue/registry"
	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/gate"
	"assay/rewardmodel/retrain"
	"assay/rewardmodel/versions"
	"assay/sidecar/childproc"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// Learning stores feedback, trains on it, and follows the current version.
type Learning struct {
	labels   *labels.Log
	registry *registry.Registry
	operator retrain.Operator
	loop     *retrain.Loop
	trains   bool // this process runs the loop
	auto     bool
	dirs     *CheckpointDirs
	log      zerolog.Logger
	// ranking is held while candidates are ranked, since the texts of the pool take up to
	// hundreds of MB.
	ranking *semaphore.Weighted

	// These are nil in a process that only trains.
	versions *versions.Set
	monitor  *monitor
	outdated prometheus.Gauge
	damaged  *damagedRecords
	follow   *follower // also nil in a process with a pinned version
}

// LearningConfig configures Learning.
type LearningConfig struct {
	Config
	Compute localmodel.Compute
	Replica *Replica
	Dirs    *CheckpointDirs
	Trains  bool
	Metrics prometheus.Registerer // nil: none
	Tracer  *trace.Tracer         // of training runs; nil: none
	Log     zerolog.Logger
}

// noSignals are the signals of a process that does not score.
type noSignals struct{}

func (noSignals) Drift() retrain.Drift               { return retrain.Drift{PValue: 1} }
func (noSignals) Disagreement() retrain.Disagreement { return retrain.Disagreement{} }

// NewLearning returns a Learning; versions is nil in a process that only trains.
func NewLearning(ctx context.Context, cfg LearningConfig, q *queue.Queue, versions *versions.Set) (*Learning, error) {
	registry, err := q.OpenRegistry(ctx)
	if err != nil {
		return nil, err
	}
	child, err := childproc.New(cfg.Program, cfg.Log)
	if err != nil {
		return nil, err
	}
	cfg.Dirs.registry = registry
	metrics := retrain.NewMetrics(cfg.Metrics)
	l := &Learning{
		labels: q.Labels(), registry: registry, dirs: cfg.Dirs, trains: cfg.Trains, auto: cfg.Policy.Auto,
		versions: versions, log: cfg.Log, ranking: semaphore.NewWeighted(1),
		operator: retrain.Operator{Models: registry, Currents: registry, Statuses: registry, Journal: registry, Replica: cfg.Replica.ID, Metrics: metrics},
	}
	cfg.Dirs.needed = l.needed
	l.damaged = newDamagedRecords(registry, cfg.Replica.ID, q, cfg.Log)
	var signals retrain.Signals = noSignals{}
	if versions != nil {
		l.monitor, l.outdated = newMonitor(registry, versions, cfg.Metrics, cfg.Log), newOutdated(cfg.Metrics)
		signals = l.monitor
		l.labels.OnAppend(l.monitor.addLabels)
	}
	var recent retrain.Recent
	if l.labels.KeepsScored() {
		recent = l.recent
	}
	l.loop = retrain.NewLoop(
		retrain.Config{Replica: cfg.Replica.ID, Dir: cfg.Replica.trainingDir(), MaxBags: cfg.MaxBags,
			Keep: cfg.ModelsKeep, Metrics: metrics, Tracer: cfg.Tracer, Settings: cfg.settings()},
		cfg.Policy,
		retrain.Parts{
			Statuses: registry, Models: registry, Currents: registry, Holdout: registry, Journal: registry,
			Labels: l.labels, Directories: cfg.Dirs, Signals: signals, Recent: recent,
			Worker: &worker{child: child, config: cfg.Config, compute: cfg.Compute, base: cfg.Dirs.model},
		}, cfg.Log)
	if cfg.Policy.MinHeldOut < gate.MinBags {
		cfg.Log.Warn().Int("holdout_min", cfg.Policy.MinHeldOut).Int("recommended", gate.MinBags).
			Msg("--holdout-min is so low that the gate can promote worse models; see docs/feedback.md for the error rates")
	}
	if versions != nil {
		initial, err := describe(cfg.Dirs.model)
		if err != nil {
			return nil, err
		}
		initial.Version = cfg.Dirs.initial
		if _, err := l.operator.Begin(ctx, initial); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// Join loads the version to serve: the pinned one, whose failure is an error, or the current one. If the current version
// cannot be loaded, the initial model serves until a retry succeeds.
func (l *Learning) Join(ctx context.Context, pin string) error {
	follow := &follower{
		replica: l.operator.Replica, versions: l.versions, monitor: l.monitor, journal: l.registry, dirs: l.dirs, log: l.log,
		outdated: l.outdated,
	}
	if pin != "" {
		if err := l.versions.Promote(ctx, pin); err != nil {
			return fmt.Errorf("--pin %s: %w", pin, err)
		}
		l.monitor.watch(pin, aspectsOf(l.versions, pin))
		return nil
	}
	current, err := l.registry.Current(ctx)
	if err != nil {
		return err
	}
	if err := follow.serve(ctx, current); err != nil {
		follow.reportFailure(ctx, current, err)
	}
	l.follow = follow
	return nil
}

// needed returns a predicate for the versions to keep in the cache: those that are loaded, the base of the training run,
// and those that the store keeps in any case. It may have older ones too; a rollback to one of them downloads it again.
func (l *Learning) needed(ctx context.Context) func(version string) bool {
	all := func(string) bool { return true }
	current, err := l.registry.Current(ctx)
	if err != nil {
		return all // for now
	}
	status, err := l.registry.Status(ctx)
	if err != nil {
		return all
	}
	keep := append(current.Needed(), status.Base)
	if l.versions != nil {
		for _, v := range l.versions.List() {
			keep = append(keep, v.Version)
		}
	}
	return func(version string) bool { return slices.Contains(keep, version) }
}

// Run follows the current version, monitors and trains until ctx ends. It returns once all of them have stopped.
func (l *Learning) Run(ctx context.Context) error {
	var group errgroup.Group
	group.Go(func() error {
		l.damaged.run(ctx)
		return nil
	})
	if l.follow != nil {
		group.Go(func() error {
			l.follow.run(ctx, l.registry.WatchCurrent(ctx))
			return nil
		})
	}
	if l.monitor != nil {
		group.Go(func() error {
			l.monitor.run(ctx)
			return nil
		})
	}
	if l.trains {
		group.Go(func() error { return l.train(ctx) })
	}
	return group.Wait()
}

// train first waits until all stored labels are indexed, because a trigger must not count only some of them.
func (l *Learning) train(ctx context.Context) error {
	for ctx.Err() == nil {
		err := l.labels.CaughtUp(ctx)
		if err == nil {
			return l.loop.Run(ctx)
		}
		l.log.Warn().Err(err).Msg("cannot read the feedback; trying again")
		_ = cli.Wait(ctx, 5*time.Second) // the loop condition checks ctx
	}
	return nil
}

// aspectsOf returns the names of the aspects of a loaded version.
func aspectsOf(set *versions.Set, version string) (names []string) {
	for _, v := range set.List() {
		if v.Version == version {
			for _, a := range v.Aspects {
				names = append(names, a.Name)
			}
		}
	}
	return names
}

// recent returns recently scored texts for the probe set.
func (l *Learning) recent(ctx context.Context, n int) ([]bag.Bag, error) {
	kept, err := l.labels.RecentScored(ctx, n)
	if err != nil {
		return nil, err
	}
	bags := make([]bag.Bag, len(kept))
	for i, k := range kept {
		bags[i] = localmodel.BagOf(k.Item)
	}
	return bags, nil
}

// Observe scores a request, whose result it observes.
func (l *Learning) Observe(ctx context.Context, req rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	answer, err := l.versions.Score(ctx, req)
	if err == nil {
		l.Scored(ctx, req, answer)
	}
	return answer, err
}

// Scored observes a scored request, and stores its responses if --keep-scored is set. A failure to store them does not
// fail the request.
func (l *Learning) Scored(ctx context.Context, req rewardmodel.Request, answer rewardmodel.ScoreResponse) {
	l.monitor.scored(req, answer)
	if !l.labels.KeepsScored() {
		return
	}
	kept := make([]labels.ScoredResponse, 0, len(answer.Results))
	now := time.Now().UTC()
	for i, r := range answer.Results {
		if r.Empty {
			continue
		}
		item := req.Responses[i]
		item.ID, item.Metadata = r.ID, nil
		k := labels.ScoredResponse{Item: item, Model: answer.Model.Version, Time: now, Violation: r.Violation,
			Threshold: r.Threshold, Reward: r.Reward, Compliant: r.Compliant, Aspects: aspectScores(r)}
		for _, instance := range r.Instances {
			k.Instances = append(k.Instances, instance.Violation)
		}
		kept = append(kept, k)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := l.labels.KeepScored(ctx, kept); err != nil {
		l.log.Warn().Err(err).Int("responses", len(kept)).Msg("cannot store scored responses; feedback by response_id will not find them")
	}
}

// aspectScores are the scores of each aspect of a model with several.
func aspectScores(r rewardmodel.Result) map[string]feedback.AspectScore {
	if r.Scores == nil {
		return nil
	}
	out := make(map[string]feedback.AspectScore, len(r.Scores))
	for _, s := range r.Scores {
		out[s.Aspect] = feedback.AspectScore{Violation: s.Violation, Threshold: s.Threshold}
	}
	return out
}

// Erased reports whether everything about a response was erased on request.
func (l *Learning) Erased(id string) bool { return l.labels.Index().Erased(feedback.HashOf(id)) }

// storeTimeout limits how long a request waits until its responses are stored.
const storeTimeout = 2 * time.Second

// maxSecondOpinions is the maximum number of candidates that another loaded version scores as well.
const maxSecondOpinions = 256

// candidatePool is the maximum number of stored responses to rank.
const candidatePool = 5000

// candidates ranks recently scored responses, for one caller at a time.
func (l *Learning) candidates(ctx context.Context, n int) ([]feedback.Candidate, error) {
	if err := l.ranking.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer l.ranking.Release(1)
	kept, err := l.labels.RecentScored(ctx, candidatePool)
	if err != nil {
		return nil, err
	}
	index := l.labels.Index()
	labeled := map[feedback.Hash]bool{}
	_, aspects, _ := l.monitor.watched()
	for b := range index.Bags(feedback.Split{}, aspects...) {
		labeled[b.ID] = !b.Unlabeled // a label of a mistyped aspect is none
	}
	pool := make([]feedback.Scored, 0, len(kept))
	for _, k := range kept {
		if !labeled[feedback.HashOf(k.Item.ID)] {
			pool = append(pool, feedback.Scored{Bag: localmodel.BagOf(k.Item), Score: feedback.Score{Model: k.Model, Violation: k.Violation, Threshold: k.Threshold, Aspects: k.Aspects}})
		}
	}
	pool = l.secondOpinion(ctx, pool)
	return feedback.Rank(ctx, pool, n, feedback.RankOptions{})
}

// secondOpinion scores the responses about which the current version is least certain, the only ones that can rank
// first, with another loaded version.
func (l *Learning) secondOpinion(ctx context.Context, pool []feedback.Scored) []feedback.Scored {
	var other string
	for _, v := range l.versions.List() {
		if v.Loaded && !v.Current {
			other = v.Version
			break
		}
	}
	if other == "" {
		return pool
	}
	first := map[string]int{}
	for i, s := range pool {
		first[s.Bag.ID] = i
	}
	req := rewardmodel.Request{Model: other, Options: rewardmodel.Options{Instances: new(false)}, Internal: true}
	least, err := feedback.Rank(ctx, pool, maxSecondOpinions, feedback.RankOptions{})
	if err != nil {
		return pool // ctx is done
	}
	for _, c := range least {
		req.Responses = append(req.Responses, localmodel.ItemOf(pool[first[c.ID]].Bag))
	}
	if len(req.Responses) == 0 {
		return pool
	}
	answer, err := l.versions.Score(ctx, req)
	if err != nil { // unloaded since, or out of time: one opinion is enough
		return pool
	}
	for _, r := range answer.Results {
		pool[first[r.ID]].Other = &feedback.Score{Model: other, Violation: r.Violation, Threshold: r.Threshold, Aspects: aspectScores(r)}
	}
	return pool
}
