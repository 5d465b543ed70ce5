package program_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/goccy/go-yaml"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/sidecar/processtest"
	"assay/sidecar/serve"
)

// monitoring is the directory of the dashboard and the alerts.
const monitoring = root + "/k8s/components/monitoring"

// query is a query of the dashboard or the expression of an alert.
type query struct{ where, expr string }

func dashboardQueries(t *testing.T) (queries []query) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(monitoring, "dashboard.json"))
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			ID      int    `json:"id"`
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	require.NotEmpty(t, dashboard.Panels)
	ids := map[int]bool{}
	for _, panel := range dashboard.Panels {
		require.False(t, ids[panel.ID], "two panels have the id %d", panel.ID)
		ids[panel.ID] = true
		require.NotEmpty(t, panel.Targets, panel.Title)
		for _, target := range panel.Targets {
			queries = append(queries, query{panel.Title, target.Expr})
		}
	}
	return queries
}

// alerts returns the expressions of the alerts, and their groups as a rule file of
// Prometheus.
func alerts(t *testing.T) (queries []query, ruleFile []byte) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(monitoring, "rules.yaml"))
	require.NoError(t, err)
	var resource struct {
		Spec struct {
			Groups []map[string]any `yaml:"groups"`
		} `yaml:"spec"`
	}
	require.NoError(t, yaml.Unmarshal(text, &resource))
	names := map[string]bool{}
	for _, group := range resource.Spec.Groups {
		for _, rule := range group["rules"].([]any) {
			rule := rule.(map[string]any)
			name := rule["alert"].(string)
			require.False(t, names[name], "%s is defined twice", name)
			names[name] = true
			queries = append(queries, query{name, rule["expr"].(string)})
		}
	}
	require.NotEmpty(t, queries)
	ruleFile, err = yaml.Marshal(map[string]any{"groups": resource.Spec.Groups})
	require.NoError(t, err)
	return queries, ruleFile
}

// trace is the trace of the requests to a monitored service.
const trace = "0af7651916cd43dd8448eb211c80319c"

// drifted is a text with another score than the first ones of a monitored service.
const drifted = "You are a stupid fool and nobody likes you at all!"

// monitored starts a service whose every subsystem has been used once.
func monitored(t *testing.T) *serve.Service {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", processtest.StartCollector(t).HTTP)
	cfg := serve.DefaultConfig()
	cfg.Traces = true
	cfg.Listen, cfg.Queue.Server.Listen, cfg.DataDir = "127.0.0.1:0", "127.0.0.1:0", t.TempDir()
	cfg.Model.Model, cfg.Model.Threads, cfg.Scorer.CacheBytes = processtest.TinyModel(t, nil), 1, 1<<20
	s, err := serve.New(cfg, zerolog.Nop())
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { require.NoError(t, s.Shutdown()) })
	require.NoError(t, s.Ready(t.Context()))

	send(t, s, "/v1/feedback", `{"items":[{"id":"a","label":"violation","response":"You fool."}]}`)
	scoreMany(t, s, 1000, "Have a good trip.") // the scores with which later ones are compared
	scoreMany(t, s, 100, drifted)
	return s
}

// scoreMany scores n copies of a text.
func scoreMany(t *testing.T, s *serve.Service, n int, text string) {
	t.Helper()
	item := fmt.Sprintf(`{"response":%q}`, text)
	send(t, s, "/v1/score", `{"responses":[`+strings.TrimSuffix(strings.Repeat(item+",", n), ",")+`]}`)
}

func send(t *testing.T, s *serve.Service, path, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+path, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Traceparent", "00-"+trace+"-b7ad6b7169203331-01")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Less(t, response.StatusCode, 300)
}

// The dashboard, the alerts and the guide name metrics that a service has.
func TestMonitoringNamesMetricsThatExist(t *testing.T) {
	_, exposition := processtest.Get(t, monitored(t).URL()+"/metrics")
	exist := map[string]bool{}
	for _, family := range regexp.MustCompile(`(?m)^# TYPE (\w+) (\w+)$`).FindAllStringSubmatch(exposition, -1) {
		exist[family[1]] = true
		if family[2] == "histogram" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				exist[family[1]+suffix] = true
			}
		}
	}
	queries, _ := alerts(t)
	queries = append(queries, dashboardQueries(t)...)
	guide, err := os.ReadFile(filepath.Join(root, "docs/how-to/monitor.md"))
	require.NoError(t, err)
	queries = append(queries, query{"docs/how-to/monitor.md", string(guide)})
	for _, q := range queries {
		names := regexp.MustCompile(`\b(assay|process)_[a-z_]+`).FindAllString(q.expr, -1)
		require.NotEmpty(t, names, "%s: %s", q.where, q.expr)
		for _, name := range names {
			require.True(t, exist[name], "%s: a service has no metric %s", q.where, name)
		}
	}
}

// Every query of the dashboard returns data from a real service, every alert can be
// evaluated, and rewards have exemplars.
func TestPrometheusAnswersEveryQuery(t *testing.T) {
	s := monitored(t)
	rules, ruleFile := alerts(t)
	p := startPrometheus(t, s.URL(), ruleFile)
	for _, q := range dashboardQueries(t) {
		expr := strings.NewReplacer("$namespace", "assay", "$__rate_interval", "1m", "$__range", "1m").Replace(q.expr)
		require.Eventually(t, func() bool {
			scoreMany(t, s, 1, drifted)
			return len(p.query(t, q.where, expr)) > 0
		}, processtest.Timeout, processtest.Timeout/100, "%s: no data: %s", q.where, expr)
	}
	for _, q := range rules {
		p.query(t, q.where, q.expr)
	}
	for _, histogram := range []string{"assay_response_reward_bucket", "assay_http_request_duration_seconds_bucket"} {
		require.Eventually(t, func() bool { return p.hasExemplar(t, histogram, trace) }, processtest.Timeout, processtest.Timeout/100, histogram)
	}
}

// promtool accepts the names of the metrics and the alerts, and each alert fires when it
// should.
func TestAlertsFire(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("needs promtool, for example of Debian's package prometheus")
	}
	rules, ruleFile := alerts(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), ruleFile, 0o600))
	cases, err := os.ReadFile("testdata/alerts.yaml")
	require.NoError(t, err)
	for _, rule := range rules {
		require.Contains(t, string(cases), "alertname: "+rule.where+"\n", "testdata/alerts.yaml does not test it")
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "alerts.yaml"), cases, 0o600))
	_, exposition := processtest.Get(t, monitored(t).URL()+"/metrics")
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "alerts.yaml"}, {"check", "metrics"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(exposition)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}
