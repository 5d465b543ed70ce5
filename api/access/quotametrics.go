package access

import (
	"github.com/prometheus/client_golang/prometheus"

	"assay/api/internal/quota"
)

// quotaMetrics are the metrics of the limits in a token file. Its lines bound the
// number of time series, which end with them.
type quotaMetrics struct {
	tokens  *Tokens // nil: no limits
	refused *prometheus.Desc
}

// NewQuotaMetrics returns the metrics of the limits of tokens; nil: there are none.
func NewQuotaMetrics(tokens *Tokens) prometheus.Collector {
	return quotaMetrics{tokens, prometheus.NewDesc("assay_rate_limited_total",
		"Requests that a limit of the token file has refused, by the name of the caller and the limit (rate, concurrent, labels).",
		[]string{"caller", "limit"}, nil)}
}

// Describe implements prometheus.Collector.
func (m quotaMetrics) Describe(to chan<- *prometheus.Desc) { to <- m.refused }

// Collect implements prometheus.Collector. Several lines may have one name.
func (m quotaMetrics) Collect(to chan<- prometheus.Metric) {
	if m.tokens == nil {
		return
	}
	type series struct {
		caller string
		limit  quota.Kind
	}
	sums := map[series]float64{}
	for _, g := range m.tokens.list() {
		if g.quota == nil {
			continue
		}
		for _, kind := range quota.Kinds() {
			sums[series{g.name, kind}] += float64(g.quota.Refused(kind))
		}
	}
	for s, n := range sums {
		to <- prometheus.MustNewConstMetric(m.refused, prometheus.CounterValue, n, s.caller, s.limit.String())
	}
}
