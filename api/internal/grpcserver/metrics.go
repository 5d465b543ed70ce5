package grpcserver

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"assay/api/internal/exchange"
	"assay/internal/trace"
)

// metrics are the metrics of calls. The label method is a method of the
// service, or "unmatched".
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	size     *prometheus.HistogramVec
	inFlight prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "assay_grpc_requests_total",
			Help: "Completed gRPC calls, by method and code.",
		}, []string{"method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "assay_grpc_request_duration_seconds",
			Help:    "Time from the headers of a gRPC call to its end.",
			Buckets: exchange.DurationBuckets(),
		}, []string{"method"}),
		size: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "assay_grpc_request_size_bytes",
			Help:    "Size of the messages that a gRPC call receives, after decompression.",
			Buckets: exchange.SizeBuckets(),
		}, []string{"method"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "assay_grpc_requests_in_flight",
			Help: "gRPC calls in flight.",
		}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.duration, m.size, m.inFlight} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) observe(ctx context.Context, method string, code codes.Code, bytesIn int64, took time.Duration) {
	m.requests.WithLabelValues(method, code.String()).Inc()
	trace.Observe(ctx, m.duration.WithLabelValues(method), took.Seconds())
	if bytesIn > 0 {
		m.size.WithLabelValues(method).Observe(float64(bytesIn))
	}
}
