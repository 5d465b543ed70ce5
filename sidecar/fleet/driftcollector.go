package fleet

import "github.com/prometheus/client_golang/prometheus"

// driftCollector collects the drift of the scores that a monitor has seen. It computes
// the drift when it is collected, which takes less than a millisecond per aspect.
type driftCollector struct {
	monitor          *monitor
	distance, pValue *prometheus.Desc
}

func newDriftCollector(m *monitor) driftCollector {
	label := []string{"aspect"}
	return driftCollector{
		monitor: m,
		distance: prometheus.NewDesc("assay_drift_distance",
			"Kolmogorov-Smirnov distance, in [0,1], between the recent scores of this replica and the first scores of the current version, by aspect. The aspect is empty for a model with one. 0 until there are 1000 first scores and a recent one.", label, nil),
		pValue: prometheus.NewDesc("assay_drift_p_value",
			"Probability of a distance at least as large as assay_drift_distance without a drift; 1 while that is not known.", label, nil),
	}
}

// Describe implements prometheus.Collector.
func (c driftCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.distance
	ch <- c.pValue
}

// Collect implements prometheus.Collector.
func (c driftCollector) Collect(ch chan<- prometheus.Metric) {
	_, _, all := c.monitor.watched()
	for aspect, s := range all {
		drift := s.window.Drift()
		ch <- prometheus.MustNewConstMetric(c.distance, prometheus.GaugeValue, drift.Distance, aspect)
		ch <- prometheus.MustNewConstMetric(c.pValue, prometheus.GaugeValue, drift.PValue, aspect)
	}
}
