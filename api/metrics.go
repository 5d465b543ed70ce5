package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
)

// metrics of the HTTP side. The label route is the pattern that matched, never
// the path that a client sent, so that nobody can grow the number of series.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	size     *prometheus.HistogramVec
	inFlight prometheus.Gauge
	calls    callMetrics
}

// callMetrics are those of gRPC. The label method is one of ours, or unmatched.
type callMetrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	size     *prometheus.HistogramVec
	inFlight prometheus.Gauge
}

// requestSeconds are the buckets of the time that a request takes.
var requestSeconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "assay_http_requests_total",
			Help: "HTTP requests answered, by route pattern, method and status.",
		}, []string{"route", "method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "assay_http_request_duration_seconds",
			Help:    "Time from the headers of a request to the end of its answer.",
			Buckets: requestSeconds,
		}, []string{"route"}),
		size: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "assay_http_request_size_bytes",
			Help:    "Body bytes read from the connection, before decompression.",
			Buckets: prometheus.ExponentialBuckets(256, 4, 10),
		}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "assay_http_requests_in_flight",
			Help: "HTTP requests being served now.",
		}),
		calls: newCallMetrics(),
	}
	for _, c := range []prometheus.Collector{m.requests, m.duration, m.size, m.inFlight,
		m.calls.requests, m.calls.duration, m.calls.size, m.calls.inFlight} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func newCallMetrics() callMetrics {
	return callMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "assay_grpc_requests_total",
			Help: "gRPC calls answered, by method and code.",
		}, []string{"method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "assay_grpc_request_duration_seconds",
			Help:    "Time from the headers of a call to its end.",
			Buckets: requestSeconds,
		}, []string{"method"}),
		size: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "assay_grpc_request_size_bytes",
			Help:    "Bytes of the messages of a call, decompressed.",
			Buckets: prometheus.ExponentialBuckets(256, 4, 10),
		}, []string{"method"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "assay_grpc_requests_in_flight",
			Help: "gRPC calls being served now.",
		}),
	}
}

func (m callMetrics) observe(method string, code codes.Code, bytesIn int64, took time.Duration) {
	m.requests.WithLabelValues(method, code.String()).Inc()
	m.duration.WithLabelValues(method).Observe(took.Seconds())
	if bytesIn > 0 {
		m.size.WithLabelValues(method).Observe(float64(bytesIn))
	}
}

func (m *metrics) observe(route, method string, status int, bytesIn int64, took time.Duration) {
	m.requests.WithLabelValues(route, knownMethod(method), strconv.Itoa(status)).Inc()
	m.duration.WithLabelValues(route).Observe(took.Seconds())
	if bytesIn > 0 {
		m.size.WithLabelValues(route).Observe(float64(bytesIn))
	}
}

// knownMethod keeps the label within a fixed set: a method is any token that a
// client likes to send.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return method
	}
	return "other"
}
