package proxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests *prometheus.CounterVec
	verdicts *prometheus.CounterVec
	actions  *prometheus.CounterVec
	failures *prometheus.CounterVec
	delay    prometheus.Histogram
	waited   prometheus.Histogram
	inFlight prometheus.Gauge
	dropped  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	buckets := []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "assay_proxy_requests_total",
			Help: "Completed requests, by endpoint (chat, completions, responses, other) and status.",
		}, []string{"endpoint", "code"}),
		verdicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "assay_proxy_verdicts_total",
			Help: "Guarded responses, by mode and verdict (compliant, violating, unknown).",
		}, []string{"mode", "verdict"}),
		actions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "assay_proxy_actions_total",
			Help: "Texts that a mode changed, by action (withheld, stopped, redacted).",
		}, []string{"action"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "assay_proxy_failures_total",
			Help: "Responses that were not scored completely, by what followed: open (released), closed (ended with an error), observe (forwarded anyway).",
		}, []string{"policy"}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "assay_proxy_release_delay_seconds", Buckets: buckets,
			Help: "Time from the piece that completes an utterance to its release, in the modes that enforce.",
		}),
		waited: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "assay_proxy_end_delay_seconds", Buckets: buckets,
			Help: "Time that the end of a response waits for its verdict.",
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "assay_proxy_requests_in_flight",
			Help: "Guarded requests in flight.",
		}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "assay_proxy_verdicts_dropped_total",
			Help: "Verdicts that were not published on NATS (--nats-url): it was away, or too slow.",
		}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.verdicts, m.actions, m.failures, m.delay, m.waited, m.inFlight, m.dropped} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// concluded counts the verdict of an answer.
func (m *metrics) concluded(r Report) {
	m.verdicts.WithLabelValues(string(r.Mode), r.verdict()).Inc()
	for _, t := range r.Texts {
		if t.Action != "" {
			m.actions.WithLabelValues(t.Action).Inc()
		}
	}
}

func (m *metrics) endWaited(since time.Time) { m.waited.Observe(time.Since(since).Seconds()) }
