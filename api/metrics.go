package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"assay/api/internal/exchange"
	"assay/internal/trace"
)

// metrics are the metrics of HTTP requests. The label route is the pattern that
// matched, never the path that a client sent, so that no client can create time
// series.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	size     *prometheus.HistogramVec
	inFlight prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "assay_http_requests_total",
			Help: "Completed HTTP requests, by route pattern, method and status.",
		}, []string{"route", "method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "assay_http_request_duration_seconds",
			Help:    "Time from the headers of an HTTP request to the end of its response.",
			Buckets: exchange.DurationBuckets(),
		}, []string{"route"}),
		size: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "assay_http_request_size_bytes",
			Help:    "Size of the bodies of HTTP requests, before decompression.",
			Buckets: exchange.SizeBuckets(),
		}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "assay_http_requests_in_flight",
			Help: "HTTP requests in flight.",
		}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.duration, m.size, m.inFlight} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) observe(ctx context.Context, route, method string, status int, bytesIn int64, took time.Duration) {
	m.requests.WithLabelValues(route, methodLabel(method), strconv.Itoa(status)).Inc()
	trace.Observe(ctx, m.duration.WithLabelValues(route), took.Seconds())
	if bytesIn > 0 {
		m.size.WithLabelValues(route).Observe(float64(bytesIn))
	}
}

// methodLabel keeps the label within a fixed set: a client may send any token as
// a method.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return method
	}
	return "other"
}
