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

// monitor watches the scores that this replica gives and the labels that callers send, for the triggers that depend on
// them. It never holds up a request.
type monitor struct {
	window *retrain.Window
	tally  *retrain.Tally
	log    zerolog.Logger

	references references
	scorer     rescorer
	labels     chan labelled // to be compared with what the model says

	mu      sync.Mutex
	version string // that it watches
	shared  bool   // its reference is that of the fleet
}

// references keeps the distribution of a version's first scores for all replicas; the first writer wins.
type references interface {
	Reference(ctx context.Context, version string) ([]float64, error)
	SetReference(ctx context.Context, version string, scores []float64) error
}

// rescorer scores responses again that somebody has labelled.
type rescorer interface {
	Score(ctx context.Context, request rewardmodel.Request) (rewardmodel.Answer, error)
}

// labelled is a response with the label that somebody gave it.
type labelled struct {
	id   feedback.Hash
	item rewardmodel.Item
	bad  bool
}

// maxLabels bounds the labels that wait to be compared; more are passed over, for a rate needs no more.
const maxLabels = 4096

// shareInterval is how often a monitor looks for the fleet's reference.
const shareInterval = 10 * time.Second

func newMonitor(r references, s rescorer, log zerolog.Logger) *monitor {
	return &monitor{window: retrain.NewWindow(""), tally: retrain.NewTally(""), references: r, scorer: s,
		labels: make(chan labelled, maxLabels), log: log}
}

// watch starts from scratch for a version that was promoted.
func (m *monitor) watch(version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.version != version {
		m.version, m.shared = version, false
		m.window.Reset(version, nil)
		m.tally.Reset(version)
	}
}

// scored takes the scores of an answer. Those of another aggregate are distributed otherwise.
func (m *monitor) scored(req rewardmodel.Request, answer rewardmodel.Answer) {
	if a := req.Options.Aggregate; a != "" && a != rewardmodel.AggregateMax {
		return
	}
	for _, r := range answer.Results {
		if !r.Empty {
			m.window.Add(answer.Model.Version, r.Violation)
		}
	}
}

// addLabels takes items of feedback that carry their text.
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

// maxCompared keeps such a request small beside those that somebody waits for.
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
		m.tally.Add(answer.Model.Version, batch[i].id, batch[i].bad, !r.Compliant)
	}
	return nil
}

// share takes the fleet's reference of the version, or gives it ours.
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
