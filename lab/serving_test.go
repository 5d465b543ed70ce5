package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/wire"
	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

// benchAgainst loads a server with the given handler.
func benchAgainst(t *testing.T, handler http.HandlerFunc, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	args = append([]string{"serving", "--text", "--url", server.URL, "--concurrency", "2", "--size", "3"}, args...)
	return lab(t, "One.\nTwo.\nThree.\nFour.\nFive.\nSix.\n", args...)
}

func TestBenchServing(t *testing.T) {
	bodies := make(chan int, 10) // responses of each request
	stdout, stderr, code := benchAgainst(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		req, bad := wire.DecodeRequest(body, wire.Limits{})
		if err != nil || bad != nil || r.URL.Path != "/v1/score" {
			w.WriteHeader(http.StatusBadRequest)
		}
		bodies <- len(req.Responses)
	}, "--max-responses", "5")
	require.Equal(t, cli.ExitDone, code, stderr)
	require.Equal(t, 5, <-bodies+<-bodies, "no more than --max-responses")
	require.Empty(t, bodies)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Len(t, lines, 2)
	require.Equal(t, strings.Fields("concurrency size requests responses/s p50 ms p99 ms failed"), strings.Fields(lines[0]))
	row := strings.Fields(lines[1])
	require.Len(t, row, 7)
	require.Equal(t, []string{"2", "3", "2"}, row[:3])
	require.Equal(t, "0", row[6])
}

func TestBenchServingOfAFailingService(t *testing.T) {
	_, stderr, code := benchAgainst(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no model", http.StatusServiceUnavailable)
	})
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, stderr, "every request failed: 503 Service Unavailable: no model")

	_, stderr, code = benchAgainst(t, http.NotFound, "--size", "0")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "--size")
}

// Requests leave at their times, whether or not earlier ones are answered.
func TestBenchServingAtARate(t *testing.T) {
	const requests = 8
	var waiting sync.WaitGroup
	waiting.Add(requests)
	stdout, stderr, code := benchAgainst(t, func(http.ResponseWriter, *http.Request) {
		waiting.Done()
		waiting.Wait() // until all are in flight
	}, "--rate", "200", "--seconds", "0.04", "--size", "1,2")
	require.Equal(t, cli.ExitDone, code, stderr)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Len(t, lines, 2)
	row := strings.Fields(lines[1])
	require.Equal(t, []string{"1", "no", "8"}, row[:3])
	longest, err := strconv.ParseFloat(row[6], 64)
	require.NoError(t, err)
	require.GreaterOrEqual(t, longest, 35.0, "the first waited for the last, which left 35 ms later")

	_, stderr, code = benchAgainst(t, http.NotFound, "--alongside=--epochs 1")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "--alongside and --consoles need --rate")
}

// In every other round clients read what consoles read.
func TestBenchServingWithConsoles(t *testing.T) {
	var streams, requests atomic.Int64
	service := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics":
			_, _ = fmt.Fprintf(w, "process_cpu_seconds_total %d\n", requests.Load())
		case "/v1/scored":
			streams.Add(1)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			requests.Add(1)
		}
	}
	stdout, stderr, code := benchAgainst(t, service, "--rate", "100", "--seconds", "0.05", "--size", "1", "--rounds", "2", "--consoles", "3")
	require.Equal(t, cli.ExitDone, code, stderr)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Len(t, lines, 6)
	require.Equal(t, strings.Fields("round consoles requests p50 ms p90 ms p99 ms longest ms failed CPU ms"), strings.Fields(lines[0]))
	row := strings.Fields(lines[2])
	require.Equal(t, []string{"1", "yes", "5", "0", "1000.000"}, append(row[:3:3], row[7:]...))
	require.Contains(t, lines[5], "CPU time of a request 1.000")
	require.Equal(t, int64(2*3), streams.Load())

	_, stderr, code = benchAgainst(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/scored" {
			service(w, r)
		}
	}, "--rate", "100", "--seconds", "0.2", "--size", "1", "--consoles", "3")
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, stderr, "ended before the round")
}

// Every other round runs alongside a training job, which is stopped afterwards.
func TestBenchServingAlongsideTraining(t *testing.T) {
	train := "--alongside=--init " + processtest.TinyModel(t, nil) + " --bags " + processtest.BagFile(t, 20) + " --threads 1 --precision fp32 --epochs "
	stdout, stderr, code := benchAgainst(t, func(http.ResponseWriter, *http.Request) {}, "--rate", "100", "--seconds", "0.05", "--size", "1", train+"100000")
	require.Equal(t, cli.ExitDone, code, stderr)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Len(t, lines, 4)
	require.Equal(t, []string{"1", "no", "5"}, strings.Fields(lines[1])[:3])
	require.Equal(t, []string{"1", "yes", "5"}, strings.Fields(lines[2])[:3])
	require.Contains(t, lines[3], "Median ratio of the rounds: p50 ")

	_, stderr, code = benchAgainst(t, func(http.ResponseWriter, *http.Request) {}, "--rate", "100", "--alongside=--init nowhere --bags none")
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, stderr, "--alongside: ")
}
