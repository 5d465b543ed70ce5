package traces_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	oteltrace "go.opentelemetry.io/otel/trace"

	"assay/sidecar/processtest"
	"assay/sidecar/traces"
)

// setEnvironment sets variables, and removes the others that matter.
func setEnvironment(t *testing.T, variables map[string]string) {
	t.Helper()
	for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
		"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_TRACES_SAMPLER"} {
		t.Setenv(name, "")
	}
	for name, value := range variables {
		t.Setenv(name, value)
	}
}

func TestConfigured(t *testing.T) {
	const endpoint = "http://127.0.0.1:4318"
	for name, test := range map[string]struct {
		environment map[string]string
		want        bool
	}{
		"nothing":         {nil, false},
		"endpoint":        {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, true},
		"traces endpoint": {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": endpoint}, true},
		"disabled":        {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_SDK_DISABLED": "TRUE"}, false},
		"no exporter":     {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_TRACES_EXPORTER": "none"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			setEnvironment(t, test.environment)
			require.Equal(t, test.want, traces.Configured())
		})
	}
}

// logBook keeps a log that is still written while it is read.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBook) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// count returns how often the log has a text.
func (l *logBook) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// start starts an exporter with a registry and a log.
func start(t *testing.T) (*traces.Exporter, *prometheus.Registry, *logBook) {
	t.Helper()
	registry, log := prometheus.NewRegistry(), &logBook{}
	e, err := traces.Start(registry, zerolog.New(log))
	require.NoError(t, err)
	return e, registry, log
}

// record records n spans.
func record(e *traces.Exporter, n int) {
	for i := range n {
		_, span := e.Tracer().Continue(context.Background(), fmt.Sprint("span ", i), oteltrace.SpanKindServer, "", "")
		span.End()
	}
}

// outcomes returns the counters of spans.
func outcomes(t *testing.T, registry *prometheus.Registry) (exported, failed, dropped int) {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	values := map[string]int{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			values[m.GetLabel()[0].GetValue()] = int(m.GetCounter().GetValue())
		}
	}
	return values["exported"], values["failed"], values["dropped"]
}

func TestExport(t *testing.T) {
	c := processtest.StartCollector(t)
	for name, environment := range map[string]map[string]string{
		"default":     {"OTEL_EXPORTER_OTLP_ENDPOINT": c.HTTP},
		"http":        {"OTEL_EXPORTER_OTLP_ENDPOINT": c.HTTP, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
		"traces only": {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": c.HTTP + "/v1/traces"},
		"grpc":        {"OTEL_EXPORTER_OTLP_ENDPOINT": c.GRPC, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
	} {
		t.Run(name, func(t *testing.T) {
			environment["OTEL_EXPORTER_OTLP_HEADERS"] = "x-key=" + strings.ReplaceAll(name, " ", "-")
			environment["OTEL_RESOURCE_ATTRIBUTES"] = "service.name=" + strings.ReplaceAll(name, " ", "-") + ",deployment.environment.name=test"
			setEnvironment(t, environment)
			e, registry, _ := start(t)
			before := len(c.Spans())
			record(e, 3)
			e.Shutdown(t.Context()) // flushes
			received := c.Spans()[before:]
			require.Len(t, received, 3)
			require.Equal(t, strings.ReplaceAll(name, " ", "-"), received[0].Resource["service.name"])
			require.Equal(t, "test", received[0].Resource["deployment.environment.name"])
			require.NotEmpty(t, received[0].Resource["service.version"])
			require.Contains(t, c.Keys(), strings.ReplaceAll(name, " ", "-"))
			exported, failed, dropped := outcomes(t, registry)
			require.Equal(t, [3]int{3, 0, 0}, [3]int{exported, failed, dropped})
			record(e, 1) // after the shutdown: ignored
		})
	}
}

func TestServiceName(t *testing.T) {
	c := processtest.StartCollector(t)
	for name, want := range map[string]string{"": "assay", "rewards": "rewards"} {
		setEnvironment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.HTTP, "OTEL_SERVICE_NAME": name})
		e, _, _ := start(t)
		before := len(c.Spans())
		record(e, 1)
		e.Shutdown(t.Context())
		require.Equal(t, want, c.Spans()[before].Resource["service.name"])
	}
}

func TestSampler(t *testing.T) {
	c := processtest.StartCollector(t)
	setEnvironment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.HTTP, "OTEL_TRACES_SAMPLER": "always_off"})
	e, registry, _ := start(t)
	record(e, 3)
	e.Shutdown(t.Context())
	require.Empty(t, c.Spans())
	exported, failed, dropped := outcomes(t, registry)
	require.Zero(t, exported+failed+dropped)
}

// While the collector does not respond, spans wait in the queue, and no more than fit.
func TestSlowCollector(t *testing.T) {
	c := processtest.StartCollector(t)
	setEnvironment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.HTTP, "OTEL_BSP_MAX_QUEUE_SIZE": "8"})
	release := c.Hold()
	e, registry, _ := start(t)
	record(e, 100)
	_, failed, dropped := outcomes(t, registry)
	require.Equal(t, [2]int{0, 92}, [2]int{failed, dropped})
	release()
	e.Shutdown(t.Context())
	exported, failed, dropped := outcomes(t, registry)
	require.Equal(t, [3]int{8, 0, 92}, [3]int{exported, failed, dropped})
	require.Len(t, c.Spans(), 8)
}

// A collector that is down, or never responds, delays a shutdown until its deadline, and
// no longer; the log names the reason once.
func TestShutdownWithoutCollector(t *testing.T) {
	c := processtest.StartCollector(t)
	defer c.Hold()()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	for name, endpoint := range map[string]string{"down": "http://" + closed.Addr().String(), "silent": c.HTTP} {
		for _, protocol := range []string{"http/protobuf", "grpc"} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				if protocol == "grpc" && name == "silent" {
					endpoint = c.GRPC
				}
				setEnvironment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol})
				e, registry, log := start(t)
				record(e, 3)
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				begin := time.Now()
				e.Shutdown(ctx)
				require.Less(t, time.Since(begin), 4*time.Second, "less than flushTimeout")
				require.Eventually(t, func() bool {
					_, failed, _ := outcomes(t, registry)
					return failed == 3
				}, processtest.Timeout, time.Millisecond, "what was not exported is counted")
				require.Eventually(t, func() bool { return log.count("does not accept traces") == 1 }, processtest.Timeout, time.Millisecond)
			})
		}
	}
}

// The log has the failure of a collector once, and its recovery.
func TestCollectorRecovers(t *testing.T) {
	c := processtest.StartCollector(t)
	setEnvironment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.HTTP, "OTEL_BSP_SCHEDULE_DELAY": "1"})
	e, registry, log := start(t)
	c.Fail(http.StatusBadRequest) // which is not retried
	for i := range 2 {
		record(e, 1)
		require.Eventually(t, func() bool { _, failed, _ := outcomes(t, registry); return failed == i+1 }, processtest.Timeout, time.Millisecond)
	}
	c.Fail(0)
	record(e, 1)
	c.Await(t, "span 0", 1)
	e.Shutdown(t.Context())
	require.Equal(t, 1, log.count("does not accept traces"))
	require.Equal(t, 1, log.count("accepts traces again"))
}

func TestStartErrors(t *testing.T) {
	for variable, value := range map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_BSP_MAX_QUEUE_SIZE": "none", "OTEL_RESOURCE_ATTRIBUTES": "nonsense"} {
		setEnvironment(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", variable: value})
		registry := prometheus.NewRegistry()
		_, err := traces.Start(registry, zerolog.Nop())
		require.ErrorContains(t, err, variable)
		require.Zero(t, testutil.CollectAndCount(registry))
	}
}

// No exporter, as without a collector.
func TestNoExporter(t *testing.T) {
	var none *traces.Exporter
	require.Nil(t, none.Tracer())
	none.Shutdown(t.Context())
}
