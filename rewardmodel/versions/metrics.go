package versions

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"assay/rewardmodel"
)

// metrics are the metrics of a Set. The gauges are computed when they are
// collected, so that an evicted version leaves none behind.
type metrics struct {
	set *Set
	reg prometheus.Registerer

	held, current, bytes *prometheus.Desc

	seconds  prometheus.Histogram
	failures *prometheus.CounterVec // by reason
}

func newMetrics(v *Set, reg prometheus.Registerer) (*metrics, error) {
	label := []string{rewardmodel.VersionLabel}
	m := &metrics{
		set: v, reg: reg,
		held:    prometheus.NewDesc("assay_model_loaded", "1 for each model version in memory.", label, nil),
		current: prometheus.NewDesc("assay_model_current", "1 for the current model version, which scores requests that pin no version.", label, nil),
		bytes:   prometheus.NewDesc("assay_model_bytes", "Memory of a model version in bytes: its weights and its full cache.", label, nil),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "assay_model_load_seconds", Help: "Time to find, validate and load a model version, in seconds.",
			Buckets: prometheus.ExponentialBuckets(0.05, 2, 14),
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "assay_model_load_failures_total", Help: "Failed loads of a model version by reason: unknown, no_room, closed or failed.",
		}, []string{"reason"}),
	}
	for _, reason := range []string{failedUnknown, failedNoRoom, failedClosed, failedLoad} {
		m.failures.WithLabelValues(reason) // an increase of a series that does not exist yet shows in no query
	}
	if reg == nil {
		return m, nil
	}
	if err := reg.Register(m); err != nil {
		return nil, fmt.Errorf("metrics of the models: %w", err)
	}
	return m, nil
}

func (m *metrics) unregister() {
	if m.reg != nil {
		m.reg.Unregister(m)
	}
}

func (m *metrics) loaded(took time.Duration, err error) {
	reason := failedLoad
	switch {
	case err == nil:
		m.seconds.Observe(took.Seconds())
		return
	case errors.Is(err, ErrUnknown):
		reason = failedUnknown
	case errors.Is(err, rewardmodel.ErrOverloaded):
		reason = failedNoRoom
	case m.set.ctx.Err() != nil:
		reason = failedClosed
	}
	m.failures.WithLabelValues(reason).Inc()
}

// The reasons in assay_model_load_failures_total.
const (
	failedUnknown = "unknown"
	failedNoRoom  = "no_room"
	failedClosed  = "closed"
	failedLoad    = "failed"
)

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.held
	ch <- m.current
	ch <- m.bytes
	m.seconds.Describe(ch)
	m.failures.Describe(ch)
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, version string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, version)
	}
	for _, s := range m.set.List() {
		if !s.Loaded {
			continue
		}
		gauge(m.held, 1, s.Version)
		gauge(m.bytes, float64(s.Bytes), s.Version)
		if s.Current {
			gauge(m.current, 1, s.Version)
		}
	}
	m.seconds.Collect(ch)
	m.failures.Collect(ch)
}
