package main

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/lab/bench"
	"assay/lab/labtest"
	"assay/lab/load"
	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

// The service is a child process, the model is in this one.
func TestBenchLatency(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it needs /proc")
	}
	stdout, stderr, code := lab(t, "", "latency", "--work", labtest.Texts(t), "--model", processtest.TinyModel(t, nil), "--precision", "fp32", "--threads", "1",
		"--starts", "2", "--rounds", "2", "--idle", "5", "--pause", "0s", "--tokens", "11", "--sentences", "2", "--concurrency", "4", "--seconds", "0.2")
	require.Equal(t, cli.ExitDone, code, stderr)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Len(t, lines, 5, stdout)
	require.Regexp(t, `^/readyz: 200 after \d+\.\d\d s \(median of 2 starts, \d+\.\d\d to \d+\.\d\d\)$`, lines[0])
	columns := len(strings.Split(strings.Trim(latencyHeading, "\t"), "\t"))
	for i, name := range []string{"1", "2", "median"} {
		row := strings.Fields(lines[2+i])
		require.Len(t, row, columns)
		require.Equal(t, name, row[0])
		require.Equal(t, "0", row[columns-1], "none failed")
		for _, cell := range row[1:7] {
			value, err := strconv.ParseFloat(cell, 64)
			require.NoError(t, err)
			require.Positive(t, value)
		}
	}
}

func TestBenchLatencyMixed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it needs /proc")
	}
	stdout, stderr, code := lab(t, "", "latency", "--work", labtest.Texts(t), "--model", processtest.TinyModel(t, nil), "--precision", "fp32", "--threads", "1",
		"--starts", "1", "--rounds", "2", "--idle", "5", "--pause", "0s", "--tokens", "11", "--mixed", "--concurrency", "4", "--seconds", "0.2", "--rate", "50")
	require.Equal(t, cli.ExitDone, code, stderr)
	require.Regexp(t, `(?m)^ +1 .* 0\.0 +50\.0 +10 `, stdout, "the capacity is not measured")
	require.Regexp(t, `(?m)^ *sentences +requests +p50 ms +p90 ms +p99 ms +longest ms\n +1 +\d.*\n +2 to 8 +\d.*\n$`, stdout)
}

func TestSizes(t *testing.T) {
	s := newSizes()
	responses := make([]bench.Response, 5)
	for i, n := range []int{1, 21, 20, 60, 2} {
		responses[i].Utterances = make([]string, n)
	}
	ms := time.Millisecond
	s.add(responses, load.Result{ByRequest: map[int]time.Duration{0: ms, 1: 2 * ms, 3: 4 * ms, 4: 5 * ms}})
	var out strings.Builder
	require.NoError(t, s.write(&out))
	require.Equal(t, []string{
		"sentences requests p50 ms p90 ms p99 ms longest ms", "1 1 1.0 1.0 1.0 1.0", "2 to 8 1 5.0 5.0 5.0 5.0", "21 and more 2 2.0 4.0 4.0 4.0",
	}, strings.Split(strings.Join(strings.Fields(strings.ReplaceAll(strings.TrimSpace(out.String()), "\n", " | ")), " "), " | "))
	require.NoError(t, sizes(nil).write(&out))
}

func TestBenchLatencyRejectsInvalidFlags(t *testing.T) {
	for says, args := range map[string][]string{
		"positive":     {"--load", "0"},
		"--rate":       {"--rate=-1"},
		"--work":       {"--work", "nowhere.jsonl"},
		"--tokens 200": {"--tokens", "200", "--work", labtest.Texts(t)},
		"nowhere":      {"--model", "nowhere"},
	} {
		_, stderr, code := lab(t, "", append([]string{"latency", "--model", processtest.TinyModel(t, nil)}, args...)...)
		require.Equal(t, cli.ExitUsage, code, says)
		require.Contains(t, stderr, says)
	}
}

func TestLatencyRows(t *testing.T) {
	rounds := []latencyRound{
		{idle: 3, forward: 2, capacity: 100, rate: 80, requests: 800, p50: 10, p90: 15, p99: 20, failed: 1},
		{idle: 4, forward: 4, capacity: 300, rate: 240, requests: 2400, p50: 20, p90: 25, p99: 80, late: 2},
	}
	require.Equal(t, "1\t3.00\t2.00\t1.50\t100.0\t80.0\t800\t10.0\t15.0\t20.0\t2.00\t0.0\t1\t\n", latencyRow(1, rounds[0].cells()))
	medians := medianRow(rounds)
	require.Equal(t, []float64{3.5, 3, 1.25, 200, 160, 1600, 15, 20, 50, 3, 1, 0.5}, medians, "the ratios are medians of ratios")
}

func TestBenchSoak(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it needs /proc")
	}
	stdout, stderr, code := lab(t, "", "soak", "--work", labtest.Texts(t), "--model", processtest.TinyModel(t, nil), "--precision", "fp32", "--threads", "1",
		"--requests", "100", "--minutes", "0.01", "--concurrency", "3", "--every", "200ms", "--sentences", "2")
	require.Equal(t, cli.ExitDone, code, stderr)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.GreaterOrEqual(t, len(lines), 5, stdout)
	require.Equal(t, strings.Fields(soakHeading), strings.Fields(lines[0]))
	first, last := strings.Fields(lines[1]), strings.Fields(lines[len(lines)-2])
	require.Equal(t, "0", first[1], "the first row is before the load")
	requests, err := strconv.Atoi(last[1])
	require.NoError(t, err)
	require.GreaterOrEqual(t, requests, 100)
	require.Equal(t, []string{"0", "0"}, last[9:], "none was refused or failed")
	require.Regexp(t, `^Weights \(fp32\): 0\.6 MB\. Anonymous memory: .* from minute \d`, lines[len(lines)-1])

	stdout, stderr, code = lab(t, "", "soak", "--work", labtest.Texts(t), "--model", processtest.TinyModel(t, nil), "--precision", "fp32", "--threads", "1",
		"--load", "0.5", "--minutes", "0.01", "--concurrency", "3", "--sentences", "2")
	require.Equal(t, cli.ExitDone, code, stderr)
	require.Regexp(t, `(?m)^Capacity [0-9.]+ requests/s, and [0-9.]+ after the load\. Offered [0-9.]+ \(0\.5 times\); answered [0-9.]+; refused 0\.0\.`, stdout)
	require.Regexp(t, `(?m)^After the load, a request was answered within [0-9.]+ s`, stdout)
	for _, name := range []string{"answered requests/s", "answered KB/s", "computed tokens/s", "cores of the service", "cores of the generator", "tokens/s per core"} {
		require.Regexp(t, `(?m)^`+name+`( +[0-9.]+){3} +\d+ %$`, stdout)
	}

	_, stderr, code = lab(t, "", "soak", "--requests", "0")
	require.Equal(t, cli.ExitUsage, code)
	require.Contains(t, stderr, "--requests")
}

// Clients that are refused wait as long as the service asks.
func TestSoakRetries(t *testing.T) {
	refusals := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if refusals--; refusals >= 0 {
			w.Header().Set("Retry-After", "0")
			http.Error(w, "busy", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	to := load.NewHTTP(server.URL, 1)
	defer to.Close()
	for refused, waits := range map[int]int{0: 1, 2: 3, soakRetries - 1: soakRetries, soakRetries: 0} {
		refusals = refused
		s := &soakLoad{}
		_, err := s.retry(t.Context(), to, nil, time.Millisecond)
		require.Equal(t, waits == 0, err != nil, err)
		require.Equal(t, 1, s.retries[waits], "%d refusals: %v", refused, s.retries)
		require.EqualValues(t, min(refused, soakRetries), s.refused.Load())
		require.Equal(t, time.Millisecond, s.longest)
	}
	wait, overloaded := retryAfter(&load.StatusError{Code: http.StatusServiceUnavailable, RetryAfter: 7 * time.Second})
	require.Equal(t, 7*time.Second, wait)
	require.True(t, overloaded)
	_, overloaded = retryAfter(&load.StatusError{Code: http.StatusBadRequest})
	require.False(t, overloaded)
}

func TestSoakRows(t *testing.T) {
	row := func(minute int, anonymous int64) soakRow {
		return soakRow{
			after: time.Duration(minute) * time.Minute, requests: int64(minute) * 1000, failed: 2, refused: 7, goroutines: 20 + int64(minute), files: 30, cpu: 90 * time.Second, golang: 40e6,
			memory: bench.Memory{Anonymous: anonymous, File: 20e6, Peak: 500e6},
		}
	}
	require.Equal(t, "    2.0        2000         150.0     40.0     20.0    500.0          22      30      90.0        7       2\n", row(2, 150e6).String())
	require.Len(t, row(2, 150e6).String(), len(soakHeading))
	rows := []soakRow{row(0, 100e6), row(1, 160e6), row(2, 150e6), row(3, 152e6)}
	require.Equal(t, "Weights (bf16): 30.0 MB. Anonymous memory: 122.0 MB above them at the end of the load, 130.0 MB at most; +2.0 MB from minute 2.0 to 3.0 (+120.0 MB/h), +1 goroutines, +0 files.\n",
		soakSummary(rows, 30e6, "bf16"))
	rows[0].loaded, rows[1].loaded, rows[2].loaded = true, true, true // the capacity was measured before and after
	require.Equal(t, "Weights (bf16): 30.0 MB. Anonymous memory: 120.0 MB above them at the end of the load, 130.0 MB at most; -10.0 MB from minute 1.0 to 2.0 (-600.0 MB/h), +1 goroutines, +0 files.\n",
		soakSummary(rows, 30e6, "bf16"))
}
