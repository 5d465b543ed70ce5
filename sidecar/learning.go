package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"assay/queue"
	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/gate"
	"assay/rewardmodel/retrain"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// learning is what a process needs to take feedback, to train on it, and to follow the current version.
type learning struct {
	labels   *queue.Feedback
	registry *queue.Registry
	operator retrain.Operator
	loop     *retrain.Loop
	trains   bool // this process runs the loop
	auto     bool
	folders  *folders
	log      zerolog.Logger

	// Those of a process that serves; nil in one that only trains.
	versions *rewardmodel.Versions
	monitor  *monitor
	follow   *follower // nil in one that keeps to a pinned version, too
}

// learningConfig is what learning is made of.
type learningConfig struct {
	fleetConfig
	compute localmodel.Compute
	replica *replica
	folders *folders
	trains  bool
	log     zerolog.Logger
}

// noSignals are those of a process that scores nothing.
type noSignals struct{}

func (noSignals) Drift() retrain.Drift               { return retrain.Drift{PValue: 1} }
func (noSignals) Disagreement() retrain.Disagreement { return retrain.Disagreement{} }

// newLearning puts the parts together; versions is nil in a process that only trains.
func newLearning(ctx context.Context, cfg learningConfig, q *queue.Queue, versions *rewardmodel.Versions) (*learning, error) {
	registry, err := q.OpenRegistry(ctx)
	if err != nil {
		return nil, err
	}
	child, err := newChild(cfg.Program, cfg.log)
	if err != nil {
		return nil, err
	}
	cfg.folders.registry = registry
	l := &learning{
		labels: q.Feedback(), registry: registry, folders: cfg.folders, trains: cfg.trains, auto: cfg.Policy.Auto,
		versions: versions, log: cfg.log,
		operator: retrain.Operator{Models: registry, Currents: registry, Statuses: registry, Journal: registry, Replica: cfg.replica.id},
	}
	var signals retrain.Signals = noSignals{}
	if versions != nil {
		l.monitor = newMonitor(registry, versions, cfg.log)
		signals = l.monitor
	}
	var recent retrain.Recent
	if l.labels.Keeps() {
		recent = l.recent
	}
	l.loop = retrain.NewLoop(
		retrain.Config{Replica: cfg.replica.id, Dir: cfg.replica.trainings(), MaxBags: cfg.MaxBags,
			Keep: cfg.ModelsKeep, Settings: cfg.settings()},
		cfg.Policy,
		retrain.Parts{
			Statuses: registry, Models: registry, Currents: registry, Holdout: registry, Journal: registry,
			Labels: l.labels, Folders: cfg.folders, Signals: signals, Recent: recent,
			Worker: &worker{child: child, config: cfg.fleetConfig, compute: cfg.compute, base: cfg.folders.model},
		}, cfg.log)
	if least := gate.MinBags; cfg.Policy.MinHeldOut < least {
		cfg.log.Warn().Int("holdout_min", cfg.Policy.MinHeldOut).Int("recommended", least).
			Msg("--holdout-min is so low that the gate promotes models that are worse; docs/feedback.md has the error rates")
	}
	if versions != nil {
		initial, err := describe(cfg.folders.model)
		if err != nil {
			return nil, err
		}
		initial.Version = cfg.folders.initial
		if _, err := l.operator.Begin(ctx, initial); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// join brings this process to the version that it is to serve: the pinned one, which must load, or the current one. A
// current version that cannot be loaded is tried again later, and the model of the start serves meanwhile.
func (l *learning) join(ctx context.Context, pin string) error {
	follow := &follower{
		replica: l.operator.Replica, versions: l.versions, monitor: l.monitor, journal: l.registry, statuses: l.registry,
		currents: l.registry, folders: l.folders, log: l.log,
	}
	l.folders.needed = follow.neededNow
	if pin != "" {
		if err := l.versions.Promote(ctx, pin); err != nil {
			return fmt.Errorf("--pin %s: %w", pin, err)
		}
		l.monitor.watch(pin)
		return nil
	}
	current, err := l.registry.Current(ctx)
	if err != nil {
		return err
	}
	if err := follow.serve(ctx, current); err != nil {
		follow.complain(ctx, current, err)
	}
	l.follow = follow
	return nil
}

// run follows the current version, watches and trains until ctx ends. It returns once all of it has stopped.
func (l *learning) run(ctx context.Context) error {
	var group errgroup.Group
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

// train waits until the labels that are stored are known, for a trigger that counts half of them is a wrong one.
func (l *learning) train(ctx context.Context) error {
	for ctx.Err() == nil {
		err := l.labels.CaughtUp(ctx)
		if err == nil {
			return l.loop.Run(ctx)
		}
		l.log.Warn().Err(err).Msg("the feedback cannot be read; trying again")
		_ = cli.Wait(ctx, 5*time.Second) // the loop looks at its end
	}
	return nil
}

// recent are texts that were scored lately, for the probe set.
func (l *learning) recent(ctx context.Context, n int) ([]bag.Bag, error) {
	kept, err := l.labels.RecentKept(ctx, n)
	if err != nil {
		return nil, err
	}
	bags := make([]bag.Bag, len(kept))
	for i, k := range kept {
		bags[i] = localmodel.BagOf(k.Item)
	}
	return bags, nil
}

// scored is told of every answer, and keeps the responses if it shall. A response that cannot be kept was scored all
// the same.
func (l *learning) scored(ctx context.Context, req rewardmodel.Request, answer rewardmodel.Answer) {
	l.monitor.scored(req, answer)
	if !l.labels.Keeps() {
		return
	}
	kept := make([]queue.KeptResponse, 0, len(answer.Results))
	now := time.Now().UTC()
	for i, r := range answer.Results {
		if r.Empty {
			continue
		}
		item := req.Responses[i]
		item.ID, item.Metadata = r.ID, nil
		k := queue.KeptResponse{Item: item, Model: answer.Model.Version, Time: now, Violation: r.Violation,
			Threshold: r.Threshold, Reward: r.Reward, Compliant: r.Compliant}
		for _, instance := range r.Instances {
			k.Instances = append(k.Instances, instance.Violation)
		}
		kept = append(kept, k)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTime)
	defer cancel()
	if err := l.labels.Keep(ctx, kept); err != nil {
		l.log.Warn().Err(err).Int("responses", len(kept)).Msg("cannot keep scored responses; feedback by response_id will not find them")
	}
}

// keepTime bounds how long an answer waits until its responses are kept.
const keepTime = 2 * time.Second

// candidates of which the second opinion of another loaded version is asked.
const secondOpinions = 256

// candidatePool is how many kept responses are ranked.
const candidatePool = 5000

// candidates ranks what was scored lately.
func (l *learning) candidates(ctx context.Context, n int) ([]feedback.Candidate, error) {
	kept, err := l.labels.RecentKept(ctx, candidatePool)
	if err != nil {
		return nil, err
	}
	index := l.labels.Index()
	labelled := map[feedback.Hash]bool{}
	for b := range index.Bags(feedback.Split{}) {
		labelled[b.ID] = true
	}
	pool := make([]feedback.Scored, 0, len(kept))
	for _, k := range kept {
		if !labelled[feedback.HashOf(k.Item.ID)] {
			pool = append(pool, feedback.Scored{Bag: localmodel.BagOf(k.Item), Score: feedback.Score{Model: k.Model, Violation: k.Violation, Threshold: k.Threshold}})
		}
	}
	pool = l.secondOpinion(ctx, pool)
	return feedback.Rank(pool, n, feedback.RankOptions{}), nil
}

// secondOpinion asks another loaded version about those that the current one is least sure about, the only ones that
// can come out first.
func (l *learning) secondOpinion(ctx context.Context, pool []feedback.Scored) []feedback.Scored {
	var other string
	for _, v := range l.versions.Versions() {
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
	req := rewardmodel.Request{Model: other, Options: rewardmodel.Options{Instances: new(false)}}
	for _, c := range feedback.Rank(pool, secondOpinions, feedback.RankOptions{}) {
		req.Responses = append(req.Responses, localmodel.ItemOf(pool[first[c.ID]].Bag))
	}
	if len(req.Responses) == 0 {
		return pool
	}
	answer, err := l.versions.Score(ctx, req)
	if err != nil { // it left meanwhile, or there is no time: one opinion will do
		return pool
	}
	for _, r := range answer.Results {
		pool[first[r.ID]].Other = &feedback.Score{Model: other, Violation: r.Violation, Threshold: r.Threshold}
	}
	return pool
}
