package program_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"assay/sidecar/processtest"
)

// prometheusServer is a running Prometheus.
type prometheusServer struct{ url string }

// startPrometheus starts a Prometheus that scrapes a service, as a pod in the namespace
// assay, and evaluates rules. It skips the test where Prometheus is not installed.
func startPrometheus(t *testing.T, service string, ruleFile []byte) prometheusServer {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("needs Prometheus, for example Debian's package prometheus")
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), ruleFile, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yaml"), fmt.Appendf(nil, `
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [rules.yaml]
scrape_configs:
  - job_name: assay
    static_configs: [{targets: [%q], labels: {namespace: assay, pod: assay-0}}]
`, strings.TrimPrefix(service, "http://")), 0o600))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())

	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "--config.file="+filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--enable-feature=exemplar-storage", "--log.level=warn")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // killed
		if t.Failed() {
			t.Logf("Prometheus:\n%s", &log)
		}
	})
	p := prometheusServer{"http://" + address}
	require.Eventually(t, func() bool {
		response, err := http.Get(p.url + "/-/ready")
		if err != nil {
			return false
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	}, processtest.Timeout, processtest.Timeout/100)
	return p
}

// query returns the result of an instant query, whose errors are fatal.
func (p prometheusServer) query(t *testing.T, where, expr string) []jsontext.Value {
	t.Helper()
	var answer struct {
		Status, Error string
		Data          struct{ Result []jsontext.Value }
	}
	p.get(t, "/api/v1/query", url.Values{"query": {expr}}, &answer)
	require.Equal(t, "success", answer.Status, "%s: %s: %s", where, expr, answer.Error)
	return answer.Data.Result
}

// hasExemplar reports whether a series of the last hour has an exemplar with a trace.
func (p prometheusServer) hasExemplar(t *testing.T, series, trace string) bool {
	t.Helper()
	var answer struct {
		Data []struct {
			Exemplars []struct{ Labels map[string]string }
		}
	}
	now := time.Now()
	p.get(t, "/api/v1/query_exemplars", url.Values{"query": {series},
		"start": {now.Add(-time.Hour).Format(time.RFC3339)}, "end": {now.Add(time.Minute).Format(time.RFC3339)}}, &answer)
	for _, found := range answer.Data {
		for _, exemplar := range found.Exemplars {
			if exemplar.Labels["trace_id"] == trace {
				return true
			}
		}
	}
	return false
}

func (p prometheusServer) get(t *testing.T, path string, values url.Values, into any) {
	t.Helper()
	response, err := http.Get(p.url + path + "?" + values.Encode())
	require.NoError(t, err)
	defer response.Body.Close()
	require.NoError(t, json.UnmarshalRead(response.Body, into, json.MatchCaseInsensitiveNames(true)))
}
