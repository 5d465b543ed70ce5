package fleet

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/queue/queuetest"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/tokenizer"
	"assay/sidecar/cli"
	"assay/sidecar/processtest"
)

// tableOf runs a command that prints a table, and returns its rows.
func tableOf(t *testing.T, stdin string, args ...string) (head []string, rows [][]string) {
	t.Helper()
	stdout, stderr, code := run(t, stdin, args...)
	require.Equal(t, cli.ExitDone, code, stderr)
	for line := range strings.Lines(stdout) {
		if head == nil {
			head = strings.Fields(line)
		} else {
			rows = append(rows, strings.Fields(line))
		}
	}
	return head, rows
}

func number(t *testing.T, cell string) float64 {
	t.Helper()
	value, err := strconv.ParseFloat(strings.TrimSuffix(cell, "%"), 64)
	require.NoError(t, err)
	return value
}

func TestBenchFleetRejectsInvalidFlags(t *testing.T) {
	for want, args := range map[string][]string{
		"--nats-url is missing": {"load", "--text"},
		"--count":               {"load", "--count", "0"},
		"--rate":                {"simulate", "--token", "1us", "--rate", "-1"},
		"--token":               {"simulate"},
		"--sentence":            {"simulate", "--token", "1us", "--sentence", "0"},
		"replicas":              {"simulate", "--token", "1us", "--count", "1", "--replicas", "0"},
		"--bytes":               {"broker", "--bytes", "0"},
		"--tokens":              {"replica", "--tokens", "0"},
	} {
		_, stderr, code := run(t, "Hello.\n", append([]string{"fleet"}, args...)...)
		require.Equal(t, cli.ExitUsage, code, want)
		require.Contains(t, stderr, want)
	}
}

// Twice the replicas take about half the time, and kills take additional time.
func TestBenchFleetSimulate(t *testing.T) {
	args := []string{"fleet", "simulate", "--token", "100us", "--count", "600", "--burst", "300", "--every", "20s", "--replicas", "1,2"}
	_, rows := tableOf(t, "", args...)
	require.Len(t, rows, 2)
	require.Equal(t, []string{"1", "2"}, []string{rows[0][0], rows[1][0]})
	require.InEpsilon(t, number(t, rows[0][4])/2, number(t, rows[1][4]), 0.2, "the median latency")
	_, again := tableOf(t, "", args...)
	require.Equal(t, rows, again)
	_, killed := tableOf(t, "", append(args, "--kill-every", "5s", "--down", "2s")...)
	require.Greater(t, number(t, killed[0][5]), number(t, rows[0][5]))
	require.Positive(t, number(t, killed[0][9]))
}

// With an input, the tokens are those that the model would read.
func TestBenchFleetSimulateReadsTexts(t *testing.T) {
	model := processtest.TinyModel(t, nil)
	file := filepath.Join(t.TempDir(), "texts")
	require.NoError(t, os.WriteFile(file, []byte("Thank you for asking. It is fine.\n\nYes.\n"), 0o600))
	_, rows := tableOf(t, "", "fleet", "simulate", file, "--text", "--model", model, "--token", "1ms", "--batch", "0s", "--count", "4",
		"--replicas", "1", "--publish", "0s", "--deliver", "0s", "--settle", "0s", "--hop", "0s")
	tok, err := tokenizer.Load(model)
	require.NoError(t, err)
	tokens := 0
	for _, sentence := range []string{"Thank you for asking.", "It is fine.", "Yes."} {
		tokens += 2 * len(tok.Frame(tok.IDs(sentence)))
	}
	require.InDelta(t, float64(tokens)/1000, number(t, rows[0][1]), 0.06, "both texts twice, a millisecond per token")
}

func TestBenchFleetLoad(t *testing.T) {
	q := queuetest.Start(t, emptyScorer{3})
	for _, arrivals := range [][]string{{"--rate", "200"}, {"--burst", "20", "--every", "100ms"}} {
		_, rows := tableOf(t, "One.\nTwo.\nThree.\n", append([]string{"fleet", "load", "--text", "--nats-url", q.URL(), "--count", "40"}, arrivals...)...)
		require.Len(t, rows, 1)
		require.Equal(t, "40", rows[0][0])
		require.Equal(t, "0", rows[0][5])
	}
}

func TestBenchFleetBroker(t *testing.T) {
	_, rows := tableOf(t, "", "fleet", "broker", "--count", "300", "--bytes", "500", "--window", "1,100", "--instances", "2")
	require.Len(t, rows, 2)
	for _, row := range rows {
		require.Positive(t, number(t, row[2]))
		require.Greater(t, number(t, row[7]), 500.0)
		require.Greater(t, number(t, row[8]), 300.0)
	}
}

// A serving replica is measured over both transports.
func TestBenchFleetReplica(t *testing.T) {
	model := processtest.TinyModel(t, func(_ *checkpoint.Config, m *checkpoint.Manifest) { m.Version = "bench" })
	p := processtest.Serve(t, model, t.TempDir(), "--cache-bytes", "0")
	head, rows := tableOf(t, "Thank you for asking. It is fine.\nWhat a day!\n", "fleet", "replica", "--text", "--model", model,
		"--url", p.Ready.HTTP, "--nats-url", p.Ready.NATS, "--tokens", "5,20", "--work", "200", "--size", "4")
	require.Equal(t, "over", head[0])
	require.Len(t, rows, 4)
	for i, row := range rows {
		require.Equal(t, []string{"HTTP", "NATS"}[i%2], row[0])
		require.Equal(t, "0", row[8])
		require.Positive(t, number(t, row[3]))
	}
}

func TestArrivals(t *testing.T) {
	f := arrivalFlags{Count: 4, Every: time.Second}
	require.Equal(t, []time.Duration{0, 0, 0, 0}, f.times())
	f.Burst = 3
	require.Equal(t, []time.Duration{0, 0, 0, time.Second}, f.times())
	f.Rate = 10
	require.Equal(t, f.times(), f.times())
	require.NotZero(t, f.times()[0])
}
