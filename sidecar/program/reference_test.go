package program_test

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"assay/api/oip/inference"
	client "assay/clients/go"
	"assay/internal/errorcode"
	"assay/internal/reference"
	"assay/sidecar/processtest"
	"assay/sidecar/program"
	"assay/sidecar/proxy"
	"assay/sidecar/serve"
)

var update = flag.Bool("update", false, "write the pages of docs/reference")

// root is the root of the repository.
const root = "../.."

func TestReferenceOfTheCommandLine(t *testing.T) {
	p := program.Assay()
	p.Defaults = append(p.Defaults, kong.Vars{"data_dir": "DATA_DIR"}) // it depends on the user
	parser, err := p.Parser(&program.Commands{}, io.Discard, io.Discard)
	require.NoError(t, err)
	reference.Check(t, root, "cli.md", reference.CommandLine(parser.Model, "Command line",
		"`assay` writes data to standard output and logs to standard error. It exits with 0 when done, 1 when it failed, "+
			"and 2 for wrong usage or bad input. `DATA_DIR` is `$XDG_DATA_HOME/assay`, or `~/.local/share/assay` "+
			"(`~/Library/Application Support/assay` on macOS, `%LocalAppData%\\assay` on Windows), or `./assay-data` for a user "+
			"without a home. The benchmarks have [a program of their own](cli-lab.md)."), *update)
}

func TestReferenceOfHTTP(t *testing.T) {
	openapi, err := os.ReadFile(filepath.Join(root, "api", "openapi.json"))
	require.NoError(t, err)
	page, err := reference.HTTP(openapi)
	require.NoError(t, err)
	reference.Check(t, root, "http.md", page, *update)
}

func TestReferenceOfErrors(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(root, "internal", "errorcode", "errorcode.go"))
	require.NoError(t, err)
	page, err := reference.Errors(source, func(c errorcode.Code) reference.Retry { return retry(t, c) })
	require.NoError(t, err)
	reference.Check(t, root, "errors.md", page, *update)
}

// retry is what the Go client does after a failure.
func retry(t *testing.T, c errorcode.Code) reference.Retry {
	t.Helper()
	var attempts int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		attempts++
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(c.HTTP())
		fmt.Fprintf(w, `{"error":{"code":%q,"message":"failed"}}`, c)
	}))
	defer server.Close()
	service, err := client.New(server.URL, client.WithRetry(client.Retry{
		Budget: time.Minute, MaxAttempts: 2, InitialBackoff: time.Nanosecond, MaxBackoff: time.Nanosecond,
	}))
	require.NoError(t, err)
	_, err = service.Rollback(t.Context(), "") // is not idempotent
	require.Error(t, err)
	if attempts > 1 {
		return reference.Always
	}
	attempts = 0
	_, err = service.Models(t.Context())
	require.Error(t, err)
	if attempts > 1 {
		return reference.IfIdempotent
	}
	return reference.Never
}

func TestReferenceOfMetrics(t *testing.T) {
	cfg := serve.DefaultConfig()
	cfg.Listen, cfg.GRPCListen, cfg.Queue.Server.Listen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.DataDir = t.TempDir()
	cfg.Model.Model, cfg.Model.Threads = processtest.TinyModel(t, nil), 1
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", processtest.StartCollector(t).HTTP)
	cfg.Traces = true
	cfg.Registry = prometheus.NewRegistry() // without the metrics of the process, which depend on the system
	s, err := serve.New(cfg, zerolog.Nop())
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { require.NoError(t, s.Shutdown()) })
	require.NoError(t, s.Ready(t.Context()))

	// Histograms with labels have a type once they have a series.
	processtest.Post(t, s.URL(), `{"responses":[{"response":"Have a good trip."}]}`)
	conn, err := grpc.NewClient(s.GRPCAddress(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.Invoke(t.Context(), "/inference.GRPCInferenceService/ModelInfer", &inference.ModelInferRequest{
		Inputs: []*inference.ModelInferRequest_InferInputTensor{{
			Name: "text", Datatype: "BYTES", Shape: []int64{1},
			Contents: &inference.InferTensorContents{BytesContents: [][]byte{[]byte("Have a good trip.")}},
		}},
	}, &inference.ModelInferResponse{}))
	guard := proxy.DefaultConfig() // assay proxy has metrics of its own
	guard.Upstream = &url.URL{Scheme: "http", Host: "127.0.0.1:8000"}
	_, err = proxy.New(guard, nil, zerolog.Nop(), cfg.Registry)
	require.NoError(t, err)
	page, err := reference.Metrics(cfg.Registry)
	require.NoError(t, err)
	reference.Check(t, root, "metrics.md", page, *update)
}
