package traces

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"assay/internal/trace"
	"assay/sidecar/cli"
)

// serviceName is service.name, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES
// sets it.
const serviceName = "assay"

// flushTimeout limits how long a shutdown waits for the collector.
const flushTimeout = 5 * time.Second

// Configured reports whether the environment names a collector, and does not disable
// OpenTelemetry or its traces.
func Configured() bool {
	return endpoint() != "" && !strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") && os.Getenv("OTEL_TRACES_EXPORTER") != "none"
}

// endpoint is the address of the collector.
func endpoint() string { return signalVariable("ENDPOINT") }

// signalVariable returns the variable of traces, or else that of all signals.
func signalVariable(name string) string {
	if value := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_" + name); value != "" {
		return value
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_" + name)
}

// Exporter exports spans. A nil Exporter exports none.
type Exporter struct {
	provider *sdktrace.TracerProvider
	sender   *sender
	log      zerolog.Logger
}

// Start starts to export, and registers the metric with reg. It does not connect yet.
// The errors name the environment variable that is not valid.
func Start(reg prometheus.Registerer, log zerolog.Logger) (*Exporter, error) {
	client, err := newClient()
	if err != nil {
		return nil, err
	}
	limit, err := queueSize()
	if err != nil {
		return nil, err
	}
	ctx := context.Background() // neither connects nor waits
	version, _ := cli.BuildVersion()
	described, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName(serviceName), semconv.ServiceVersion(version)),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT %s: %w", endpoint(), err)
	}
	spans, err := newMetrics(reg)
	if err != nil {
		return nil, fmt.Errorf("metrics of the traces: %w", err)
	}
	queue := &boundedQueue{limit: limit, spans: spans}
	s := newSender(exporter, queue, log)
	queue.SpanProcessor = sdktrace.NewBatchSpanProcessor(s, sdktrace.WithMaxQueueSize(int(limit)))
	log.Info().Str("endpoint", endpoint()).Msg("exporting traces")
	return &Exporter{
		provider: sdktrace.NewTracerProvider(sdktrace.WithResource(described), sdktrace.WithSpanProcessor(queue)),
		sender:   s, log: log,
	}, nil
}

// newClient returns the client of the configured protocol.
func newClient() (otlptrace.Client, error) {
	switch protocol := signalVariable("PROTOCOL"); protocol {
	case "", "http/protobuf":
		return otlptracehttp.NewClient(), nil
	case "grpc":
		return otlptracegrpc.NewClient(), nil
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %.40q; use http/protobuf or grpc", protocol)
	}
}

// Tracer starts the spans that e exports.
func (e *Exporter) Tracer() *trace.Tracer {
	if e == nil {
		return nil
	}
	return trace.NewTracer(e.provider)
}

// Shutdown exports the queued spans until ctx ends, for at most 5 s, and stops. A
// collector that is down delays and fails no shutdown: what it does not accept is lost,
// which is logged.
func (e *Exporter) Shutdown(ctx context.Context) {
	if e == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := e.provider.Shutdown(ctx); err != nil {
		e.log.Warn().Err(err).Msg("could not export all traces before the shutdown")
	}
	e.sender.abort()
}
