package live

import (
	"github.com/prometheus/client_golang/prometheus"

	"assay/rewardmodel"
)

// The outcomes in assay_live_sessions_ended_total.
const (
	outcomeClosed    = "closed"    // with a result
	outcomeAbandoned = "abandoned" // by the client, without a result
	outcomeFailed    = "failed"
	outcomeIdle      = "idle"
	outcomeShutdown  = "shutdown"
	outcomeRefused   = "refused" // never opened
)

type metrics struct {
	open        prometheus.Gauge
	ended       *prometheus.CounterVec // by outcome
	stops       prometheus.Counter
	verdict     prometheus.Histogram
	completed   prometheus.Counter
	provisional prometheus.Counter
	tokenCounts *prometheus.CounterVec // of these two
}

func newMetrics() *metrics {
	m := &metrics{
		open: prometheus.NewGauge(prometheus.GaugeOpts{Name: "assay_live_sessions", Help: "Open live sessions."}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "assay_live_sessions_ended_total",
			Help: "Live sessions that have ended by outcome: closed (with a result), abandoned, failed, idle, shutdown or refused.",
		}, []string{"outcome"}),
		stops: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "assay_live_stops_total", Help: "Live sessions whose response could no longer become compliant.",
		}),
		verdict: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "assay_live_verdict_seconds", Help: "Time from the arrival of text that completes an utterance to its verdict, in seconds.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}),
		tokenCounts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "assay_live_tokens_total", Help: "Tokens of live sessions that the model read, by kind: completed utterances, or provisional scores of open ones.",
		}, []string{"kind"}),
	}
	for _, outcome := range []string{outcomeClosed, outcomeAbandoned, outcomeFailed, outcomeIdle, outcomeShutdown, outcomeRefused} {
		m.ended.WithLabelValues(outcome) // an increase of a series that does not exist yet shows in no query
	}
	m.completed, m.provisional = m.tokenCounts.WithLabelValues("completed"), m.tokenCounts.WithLabelValues("provisional")
	return m
}

func (m *metrics) tokens(before, after rewardmodel.LiveTokens) {
	m.completed.Add(float64(after.Settled - before.Settled))
	m.provisional.Add(float64(after.Provisional - before.Provisional))
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.open, m.ended, m.stops, m.verdict, m.tokenCounts}
}

// Describe implements prometheus.Collector.
func (s *Sessions) Describe(out chan<- *prometheus.Desc) {
	for _, c := range s.metrics.all() {
		c.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (s *Sessions) Collect(out chan<- prometheus.Metric) {
	for _, c := range s.metrics.all() {
		c.Collect(out)
	}
}
