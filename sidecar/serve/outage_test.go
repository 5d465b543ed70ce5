package serve_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue/embedded"
	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

// readResult is the response to a read.
type readResult struct {
	code int
	age  string // value of the header Age
	body string
	took time.Duration
}

// A restart of the NATS server does not affect HTTP: scoring continues, reads are
// served from memory, and /readyz?streams=1 shows the outage.
func TestOutageOfNATSLeavesHTTPUp(t *testing.T) {
	dir := t.TempDir()
	server, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:0", DataDir: dir}, nil, zerolog.Nop())
	require.NoError(t, err)
	listen := strings.TrimPrefix(server.URL(), "nats://")
	defer func() { require.NoError(t, server.Shutdown()) }()
	p := processtest.Serve(t, processtest.TinyModel(t, nil), t.TempDir(), "--nats-url", server.URL(), "--train-auto=false")

	status := func(path string) int {
		code, _ := processtest.Get(t, p.Ready.HTTP+path)
		return code
	}
	require.Equal(t, 200, status("/readyz?streams=1"))
	reads := []string{"/v1/models", "/v1/models/tiny-1", "/v1/feedback", "/v1/training", "/v1/events"}
	read := func(path string) readResult {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.Ready.HTTP+path, nil)
		require.NoError(t, err)
		r.Header.Set("Accept", "application/json")
		start := time.Now()
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return readResult{response.StatusCode, response.Header.Get("Age"), string(body), time.Since(start)}
	}
	healthy := map[string]string{}
	for _, path := range reads {
		got := read(path)
		require.Equal(t, 200, got.code, "%s: %s", path, got.body)
		require.Empty(t, got.age, path)
		healthy[path] = got.body
	}

	// Unauthenticated requests cause few requests to NATS.
	nc, err := nats.Connect(server.URL())
	require.NoError(t, err)
	defer nc.Close()
	requests, err := nc.SubscribeSync("$JS.API.STREAM.INFO.>")
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	for range 200 {
		require.Equal(t, 200, status("/readyz"))
		require.Equal(t, 200, status("/readyz?streams=1"))
	}
	require.NoError(t, nc.Flush())
	count, _, err := requests.Pending()
	require.NoError(t, err)
	require.Less(t, count, 100, "400 probes")

	require.NoError(t, server.Shutdown())
	require.Eventually(t, func() bool { return status("/readyz?streams=1") == 503 }, processtest.Timeout, 10*time.Millisecond)
	for _, path := range reads {
		got := read(path)
		require.Equal(t, 200, got.code, "%s: %s", path, got.body)
		require.Equal(t, healthy[path], got.body, path)
		require.NotEmpty(t, got.age, path)
		require.Less(t, got.took, 3*time.Second, path) // on a busy machine; the service waits 0.75 s for NATS
	}
	require.Less(t, read("/v1/feedback/candidates").took, 3*time.Second)
	for _, path := range []string{"/readyz", "/health", "/v2/health/ready"} {
		require.Equal(t, 200, status(path), path)
	}
	for i := range 20 {
		processtest.Post(t, p.Ready.HTTP, fmt.Sprintf(`{"responses":[{"response":"One %d. Two."}]}`, i))
	}
	_, metrics := processtest.Get(t, p.Ready.HTTP+"/metrics")
	require.Contains(t, metrics, `assay_check_ready{check="streams"} 0`)
	require.Contains(t, metrics, `assay_check_ready{check="model"} 1`)

	server, err = embedded.Start(embedded.Config{Listen: listen, DataDir: dir}, nil, zerolog.Nop())
	require.NoError(t, err)
	require.Eventually(t, func() bool { return status("/readyz?streams=1") == 200 }, processtest.Timeout, 100*time.Millisecond)
	require.Eventually(t, func() bool {
		got := read("/v1/models")
		return got.code == http.StatusOK && got.age == "" && got.body == healthy["/v1/models"]
	}, processtest.Timeout, 100*time.Millisecond)
	p.Signal(t)
	require.Equal(t, cli.ExitDone, p.Wait(t))
	require.Contains(t, p.Output(), "a dependency of the service is no longer ready")
	require.Contains(t, p.Output(), `"message":"a dependency of the service is ready"`)
}
