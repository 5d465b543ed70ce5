package fleet

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/rs/zerolog"

	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/retrain"
	"assay/sidecar/localmodel"
)

// monitor collects the scores of this replica and the labels from clients, for the drift and disagreement triggers, for
// each aspect of the model. It never blocks a request.
type monitor struct {
	log     zerolog.Logger
	counted *prometheus.CounterVec // labels by aspect and label

	references references
	scorer     rescorer
	labels     chan labeled // to compare with the decisions of the model

	mu      sync.Mutex
	version string   // that it monitors
	aspects []string // of that version
	// series has one element for each aspect of a model with several, or that of a model with one under "".
	series map[string]*series
	whole  *retrain.Tally // of labels of the whole response
}

// series is what is monitored of one aspect.
type series struct {
	window *retrain.Window
	tally  *retrain.Tally
	shared bool // its reference distribution is that of the fleet
}

// references stores the distribution of a version's first scores for all replicas; the first writer wins.
type references interface {
	Reference(ctx context.Context, version string) ([]float64, error)
	SetReference(ctx context.Context, version string, scores []float64) error
}

// rescorer scores labeled responses again.
type rescorer interface {
	Score(ctx context.Context, request rewardmodel.Request) (rewardmodel.ScoreResponse, error)
}

// labeled is a response with its labels.
type labeled struct {
	id     feedback.Hash
	item   rewardmodel.Item
	labels feedback.Labels
}

// maxLabels is the capacity of the queue of labels to compare; more are dropped, because a sample is enough for a rate.
const maxLabels = 4096

// shareInterval is how often a monitor polls for the fleet's reference distribution.
const shareInterval = 10 * time.Second

func newMonitor(r references, s rescorer, reg prometheus.Registerer, log zerolog.Logger) *monitor {
	m := &monitor{
		series: map[string]*series{}, whole: retrain.NewTally(""), references: r, scorer: s,
		labels: make(chan labeled, maxLabels), log: log,
		counted: promauto.With(reg).NewCounterVec(prometheus.CounterOpts{Name: "assay_feedback_labels_total",
			Help: "Labels that this process accepted, by aspect and label. The aspect is empty for labels of the whole response, and (other) for aspects that the current model does not have."},
			[]string{"aspect", "label"}),
	}
	if reg != nil {
		reg.MustRegister(newDriftCollector(m))
	}
	return m
}

// watch resets the monitor if version, whose aspects are given, is new.
func (m *monitor) watch(version string, aspects []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.version == version {
		return
	}
	before := m.series
	m.version, m.aspects, m.series = version, aspects, map[string]*series{}
	m.whole.Reset(version)
	for _, name := range m.monitored() {
		s := before[name]
		if s == nil {
			s = &series{window: retrain.NewWindow(""), tally: retrain.NewTally("")}
		}
		s.shared = false
		s.window.Reset(version, nil)
		s.tally.Reset(version)
		m.series[name] = s
	}
}

// monitored are the names of the series.
func (m *monitor) monitored() []string {
	if len(m.aspects) > 1 {
		return m.aspects
	}
	return []string{""}
}

// watched returns what is monitored. The map and the names must not be changed.
func (m *monitor) watched() (version string, aspects []string, all map[string]*series) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.version, m.aspects, m.series
}

// scored observes the scores of a result. Scores of other aggregates than max have other distributions and are ignored.
func (m *monitor) scored(req rewardmodel.Request, answer rewardmodel.ScoreResponse) {
	if a := req.Options.Aggregate; a != "" && a != rewardmodel.AggregateMax {
		return
	}
	_, _, all := m.watched()
	for _, r := range answer.Results {
		if r.Empty {
			continue
		}
		scores := r.Scores
		if scores == nil {
			scores = []rewardmodel.AspectScore{{Violation: r.Violation}}
		}
		for _, score := range scores { // which may be those of another version
			if s := all[score.Aspect]; s != nil {
				s.window.Add(answer.Model.Version, score.Violation)
			}
		}
	}
}

// otherAspect is the label of the metric for an aspect that the model does not have.
const otherAspect = "(other)"

// addLabels counts the labels of accepted items, and queues those that include their text.
func (m *monitor) addLabels(items []feedback.Entry) {
	_, aspects, _ := m.watched()
	full := false
	for _, it := range items {
		if it.Label != "" {
			m.counted.WithLabelValues("", string(it.Label)).Inc()
		}
		for aspect, label := range it.Labels {
			if !slices.Contains(aspects, aspect) {
				aspect = otherAspect
			}
			m.counted.WithLabelValues(aspect, string(label)).Inc()
		}
		if full || !it.HasText() {
			continue
		}
		select {
		case m.labels <- labeled{feedback.HashOf(it.ID), localmodel.ItemOf(it.Bag), feedback.LabelsOf(it.Bag)}:
		default:
			full = true
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
func (m *monitor) compare(ctx context.Context, first labeled) (err error) {
	defer func() {
		if value := recover(); value != nil {
			m.log.Error().Str("panic", fmt.Sprint(value)).Bytes("stack", debug.Stack()).Msg("comparing labels with the model's decisions panicked")
			err = fmt.Errorf("panic: %v", value)
		}
	}()
	batch := []labeled{first}
	for len(batch) < maxCompared && len(m.labels) > 0 {
		batch = append(batch, <-m.labels)
	}
	_, aspects, all := m.watched()
	req := rewardmodel.Request{Options: rewardmodel.Options{Instances: new(false), Aspects: len(aspects) > 1}, Internal: true}
	for _, l := range batch {
		req.Responses = append(req.Responses, l.item)
	}
	answer, err := m.scorer.Score(ctx, req)
	if err != nil {
		return err
	}
	for i, r := range answer.Results {
		add := func(to *retrain.Tally, label bag.Label, compliant bool) {
			if label != "" {
				to.Add(answer.Model.Version, batch[i].id, label == bag.Violation, !compliant)
			}
		}
		labels := batch[i].labels
		if len(aspects) <= 1 {
			labels, _ = labels.Of(aspects)
		}
		add(m.whole, labels.Whole, r.Compliant)
		for name, a := range r.Aspects {
			if s := all[name]; s != nil {
				add(s.tally, labels.For(name, len(aspects)), a.Compliant)
			}
		}
	}
	return nil
}

// share adopts the fleet's reference distributions of the version, or publishes those of this replica if there are none.
func (m *monitor) share(ctx context.Context) error {
	version, _, all := m.watched()
	if version == "" {
		return nil
	}
	for name, s := range all {
		m.mu.Lock()
		shared := s.shared
		m.mu.Unlock()
		if shared {
			continue
		}
		done, err := m.shareOne(ctx, version, name, s.window)
		if err != nil {
			return err
		}
		m.mu.Lock()
		s.shared = s.shared || done && m.version == version
		m.mu.Unlock()
	}
	return nil
}

// shareOne shares the reference distribution of one series, and reports whether the fleet has one.
func (m *monitor) shareOne(ctx context.Context, version, aspect string, window *retrain.Window) (bool, error) {
	key := version
	if aspect != "" {
		key += "/" + aspect // no version has a slash
	}
	scores, err := m.references.Reference(ctx, key)
	if err != nil {
		return false, err
	}
	own, whole := window.Reference()
	switch {
	case len(scores) > 0:
		window.SetReference(version, scores)
	case own == version && whole != nil:
		return true, m.references.SetReference(ctx, key, whole)
	default:
		return false, nil
	}
	return true, nil
}

// Drift implements retrain.Signals.
func (m *monitor) Drift() retrain.Drift {
	_, aspects, all := m.watched()
	if len(aspects) <= 1 {
		if s := all[""]; s != nil {
			return s.window.Drift()
		}
		return retrain.Drift{PValue: 1}
	}
	drifts := map[string]retrain.Drift{}
	for name, s := range all {
		drifts[name] = s.window.Drift()
	}
	return retrain.LargestDrift(drifts)
}

// Disagreement implements retrain.Signals.
func (m *monitor) Disagreement() retrain.Disagreement {
	_, aspects, all := m.watched()
	d := m.whole.Disagreement()
	if len(aspects) > 1 {
		d.Aspects = map[string]retrain.Disagreement{}
		for name, s := range all {
			d.Aspects[name] = s.tally.Disagreement()
		}
	}
	return d
}
