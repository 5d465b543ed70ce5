package program_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/sidecar/cli"
	"assay/sidecar/doctor"
	"assay/sidecar/processtest"
	"assay/sidecar/serve"
)

// report runs assay doctor for a service on free ports with a small model.
func report(t *testing.T, wantCode int, args ...string) doctor.Report {
	t.Helper()
	args = append([]string{"doctor", "--json", "--threads", "1", "--precision", "fp32"}, args...)
	stdout, stderr, code := assay(t, "", args...)
	require.Equal(t, wantCode, code, "%s%s", stdout, stderr)
	var r doctor.Report
	require.NoError(t, json.Unmarshal([]byte(stdout), &r), stdout)
	return r
}

// details are those of the findings of a check with a status.
func details(r doctor.Report, check string, status doctor.Status) (found []string) {
	for _, f := range r.Findings {
		if f.Check == check && f.Status == status {
			found = append(found, f.Detail)
		}
	}
	return found
}

func TestDoctor(t *testing.T) {
	model := processtest.TinyModel(t, nil)
	data := filepath.Join(t.TempDir(), "data")
	t.Run("healthy", func(t *testing.T) {
		args := []string{"--model", model, "--data-dir", data, "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0"}
		r := report(t, cli.ExitDone, args...)
		require.Zero(t, r.Errors, r)
		var checks []string
		for _, f := range r.Findings {
			checks = append(checks, f.Check)
		}
		require.Equal(t, []string{"settings", "processor", "threads", "files", "model", "memory", "clock", "data", "sync", "streams", "tokens", "listen"}, slices.Compact(checks))
		require.NoDirExists(t, data)

		stdout, stderr, code := assay(t, "", append([]string{"doctor", "--threads", "1", "--precision", "fp32"}, args...)...)
		require.Equal(t, cli.ExitDone, code, stderr)
		require.Contains(t, stdout, "ok       settings   valid\n")
		require.Empty(t, stderr)
	})
	t.Run("several problems", func(t *testing.T) {
		r := report(t, cli.ExitFailed, "--model", "nowhere", "--data-dir", data, "--listen", "192.0.2.1:80", "--max-body", "0", "--max-responses", "0",
			"--token-file", "none", "--nats-url", "nats://127.0.0.1:1", "--policy-tokenizer", "x")
		for check, want := range map[string]int{"settings": 3, "model": 1, "tokens": 1, "listen": 1, "nats": 1} {
			require.Len(t, details(r, check, doctor.Error), want, "%s: %v", check, r.Findings)
		}
		require.Equal(t, 7, r.Errors)
		require.Contains(t, details(r, "nats", doctor.Error)[0], "--nats-url")
	})
	t.Run("usage", func(t *testing.T) {
		_, _, code := assay(t, "", "doctor", "--sync", "never")
		require.Equal(t, cli.ExitUsage, code)
	})
}

// A service that runs is named, and its NATS server can be inspected.
func TestDoctorNamesARunningService(t *testing.T) {
	model, data := processtest.TinyModel(t, nil), t.TempDir()
	cfg := serve.DefaultConfig()
	cfg.Listen, cfg.OpsListen, cfg.GRPCListen, cfg.Queue.Server.Listen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.DataDir, cfg.Train = data, false
	cfg.Model.Model, cfg.Model.Threads = model, 1
	s, err := serve.New(cfg, zerolog.Nop())
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { require.NoError(t, s.Shutdown()) })
	require.NoError(t, s.Ready(context.Background()))
	version, _, _ := s.Model()

	address := s.URL()[len("http://"):]
	natsAddress := s.NATSURL()[len("nats://"):]
	r := report(t, cli.ExitDone, "--model", model, "--data-dir", data, "--listen", address, "--grpc-listen", s.GRPCAddress(), "--nats-listen", natsAddress)
	require.Equal(t, []string{
		"--listen " + address + ": in use by an assay that serves the model " + version,
		"--grpc-listen " + s.GRPCAddress() + ": in use by an assay",
	}, details(r, "listen", doctor.Warning)[:2])
	require.Contains(t, details(r, "listen", doctor.Warning)[2], "--nats-listen "+natsAddress+": in use by an assay with nats-server")
	require.Contains(t, details(r, "data", doctor.Warning)[0], "in use by the assay process")

	r = report(t, cli.ExitDone, "--model", model, "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--nats-url", s.NATSURL())
	require.Contains(t, details(r, "nats", doctor.OK)[0], natsAddress)
	require.Len(t, details(r, "streams", doctor.OK), 7)
}
