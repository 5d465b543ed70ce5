package retrain

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the metrics of the Loop and the Operator of a process. A nil Metrics
// counts nothing.
type Metrics struct {
	phases     *prometheus.GaugeVec     // by phase
	runs       *prometheus.HistogramVec // by result
	gate       *prometheus.CounterVec   // by decision
	promotions *prometheus.CounterVec   // by who decided
	rollbacks  prometheus.Counter
	overShare  prometheus.Gauge
}

// The values of labels.
const (
	decisionPassed   = "passed"
	decisionRejected = "rejected"
	byGate           = "gate"
	byOperator       = "operator"
)

// NewMetrics registers with reg, which may be nil; at most once.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := promauto.With(reg)
	m := &Metrics{
		phases: f.NewGaugeVec(prometheus.GaugeOpts{Name: "assay_training_phase",
			Help: "1 for the phase of the fleet's training run: idle, collecting, training, gating or publishing. Of processes that train."}, []string{"phase"}),
		runs: f.NewHistogramVec(prometheus.HistogramOpts{Name: "assay_training_run_seconds",
			Help:    "Time from the start to the end of the training runs that this process ended, in seconds, by result: promoted, rejected, failed or canceled.",
			Buckets: prometheus.ExponentialBuckets(15, 2, 13)}, []string{"result"}),
		gate: f.NewCounterVec(prometheus.CounterOpts{Name: "assay_gate_decisions_total",
			Help: "Candidates that the gate of this process judged, by decision: passed or rejected."}, []string{"decision"}),
		promotions: f.NewCounterVec(prometheus.CounterOpts{Name: "assay_model_promotions_total",
			Help: "Versions that this process made current, by what decided it: gate or operator."}, []string{"by"}),
		rollbacks: f.NewCounter(prometheus.CounterOpts{Name: "assay_model_rollbacks_total",
			Help: "Rollbacks to an earlier version that operators requested of this process."}),
		overShare: f.NewGauge(prometheus.GaugeOpts{Name: "assay_training_over_share",
			Help: "Responses that the last training run of this process omitted because of --max-sender-share."}),
	}
	for _, by := range []string{byGate, byOperator} {
		m.promotions.WithLabelValues(by) // an increase of a series that does not exist yet shows in no query
	}
	return m
}

// begin creates the series of a process that trains.
func (m *Metrics) begin() {
	if m == nil {
		return
	}
	m.phase(PhaseIdle)
	for _, result := range []Result{ResultPromoted, ResultRejected, ResultFailed, ResultCanceled} {
		m.runs.WithLabelValues(string(result))
	}
	for _, decision := range []string{decisionPassed, decisionRejected} {
		m.gate.WithLabelValues(decision)
	}
}

// phase sets the phase of the training run of the fleet; "" is PhaseIdle.
func (m *Metrics) phase(now Phase) {
	if m == nil {
		return
	}
	if now == "" {
		now = PhaseIdle
	}
	for _, p := range []Phase{PhaseIdle, PhaseCollecting, PhaseTraining, PhaseGating, PhasePublishing} {
		value := 0.0
		if p == now {
			value = 1
		}
		m.phases.WithLabelValues(string(p)).Set(value)
	}
}

// collected reports how many responses a training run omitted because of their sender.
func (m *Metrics) collected(overShare int) {
	if m != nil {
		m.overShare.Set(float64(overShare))
	}
}

// judged counts a decision of the gate.
func (m *Metrics) judged(v Verdict) {
	if m == nil {
		return
	}
	decision := decisionRejected
	if v.Promote {
		decision = decisionPassed
	}
	m.gate.WithLabelValues(decision).Inc()
}

// ended counts a training run.
func (m *Metrics) ended(result Result, took time.Duration) {
	if m == nil {
		return
	}
	m.runs.WithLabelValues(string(result)).Observe(took.Seconds())
	if result == ResultPromoted {
		m.promotions.WithLabelValues(byGate).Inc()
	}
}

// changed counts a change of the current version by an operator.
func (m *Metrics) changed(kind EventKind) {
	switch {
	case m == nil:
	case kind == EventRolledBack:
		m.rollbacks.Inc()
	default:
		m.promotions.WithLabelValues(byOperator).Inc()
	}
}
