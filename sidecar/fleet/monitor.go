package fleet

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/retrain"
	"assay/sidecar/localmodel"
)

// monitor collects the scores of this replica and the labels from clients, for the drift and disagreement triggers. It
// never blocks a request.
type monitor struct {
	window *retrain.Window
	tally  *retrain.Tally
	log    zerolog.Logger

	references references
	scorer     rescorer
	labels     chan labelled // to compare with the decisions of the model

	mu      sync.Mutex
	version string // that it monitors
	shared  bool   // its reference distribution is that of the fleet
}

// references stores the distribution of a version's first scores for all replicas; the first writer wins.
type references interface {
	Reference(ctx context.Context, version string) ([]float64, error)
	SetReference(ctx context.Context, version string, scores []float64) error
}

// rescorer scores labelled responses again.
type rescorer interface {
	Score(ctx context.Context, request rewardmodel.Request) (rewardmodel.ScoreResponse, error)
}

// labelled is a response with its label.
type labelled struct {
	id        feedback.Hash
	item      rewardmodel.Item
	violation bool
}

// maxLabels is the capacity of the queue of labels to compare; more are dropped, because a sample is enough for a rate.
const maxLabels = 4096

// shareInterval is how often a monitor polls for the fleet's reference distribution.
const shareInterval = 10 * time.Second

func newMonitor(r references, s rescorer, log zerolog.Logger) *monitor {
	return &monitor{window: retrain.NewWindow(""), tally: retrain.NewTally(""), references: r, scorer: s,
		labels: make(chan labelled, maxLabels), log: log}
}

// watch resets the monitor if version is new.
func (m *monitor) watch(version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.version != version {
		m.version, m.shared = version, false
		m.window.Reset(version, nil)
		m.tally.Reset(version)
	}
}

// scored observes the scores of a result. Scores of other aggregates than max have other distributions and are ignored.
func (m *monitor) scored(req rewardmodel.Request, answer rewardmodel.ScoreResponse) {
	if a := req.Options.Aggregate; a != "" && a != rewardmodel.AggregateMax {
		return
	}
	for _, r := range answer.Results {
		if !r.Empty {
			m.window.Add(answer.Model.Version, r.Violation)
		}
	}
}

// addLabels queues feedback items that include their text.
func (m *monitor) addLabels(items []feedback.Entry) {
	for _, it := range items {
		if !it.HasText() {
			continue
		}
		select {
		case m.labels <- labelled{feedback.HashOf(it.ID), localmodel.ItemOf(it.Bag), it.Label == bag.Violation}:
		default:
			return
		}
	}
}

// run compares labels with decisions and shares references until ctx ends.
func (m *monitor) run(ctx context.Context) {
	tick := time.NewTicker(shareInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := m.share(ctx); err != nil && ctx.Err() == nil {
				m.log.Debug().Err(err).Msg("cannot share the distribution of scores")
			}
		case first := <-m.labels:
			if err := m.compare(ctx, first); err != nil && ctx.Err() == nil {
				m.log.Debug().Err(err).Msg("cannot compare labels with the model's decisions")
			}
		}
	}
}

// maxCompared keeps these background requests small compared with those of clients.
const maxCompared = 16

// compare skips labels whose text makes the scorer panic.
func (m *monitor) compare(ctx context.Context, first labelled) (err error) {
	defer func() {
		if value := recover(); value != nil {
			m.log.Error().Str("panic", fmt.Sprint(value)).Bytes("stack", debug.Stack()).Msg("comparing labels with the model's decisions panicked")
			err = fmt.Errorf("panic: %v", value)
		}
	}()
	batch := []labelled{first}
	for len(batch) < maxCompared && len(m.labels) > 0 {
		batch = append(batch, <-m.labels)
	}
	req := rewardmodel.Request{Options: rewardmodel.Options{Instances: new(false)}}
	for _, l := range batch {
		req.Responses = append(req.Responses, l.item)
	}
	answer, err := m.scorer.Score(ctx, req)
	if err != nil {
		return err
	}
	for i, r := range answer.Results {
		m.tally.Add(answer.Model.Version, batch[i].id, batch[i].violation, !r.Compliant)
	}
	return nil
}

// share adopts the fleet's reference distribution of the version, or publishes that of this replica if there is none.
func (m *monitor) share(ctx context.Context) error {
	m.mu.Lock()
	version, shared := m.version, m.shared
	m.mu.Unlock()
	if shared || version == "" {
		return nil
	}
	scores, err := m.references.Reference(ctx, version)
	if err != nil {
		return err
	}
	own, whole := m.window.Reference()
	switch {
	case len(scores) > 0:
		m.window.SetReference(version, scores)
	case own == version && whole != nil:
		if err := m.references.SetReference(ctx, version, whole); err != nil {
			return err
		}
	default:
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shared = m.version == version
	return nil
}

// Drift implements retrain.Signals.
func (m *monitor) Drift() retrain.Drift { return m.window.Drift() }

// Disagreement implements retrain.Signals.
func (m *monitor) Disagreement() retrain.Disagreement { return m.tally.Disagreement() }
