package api_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/api"
	"assay/internal/trace"
	"assay/rewardmodel"
)

func TestHealth(t *testing.T) {
	loading := errors.New("reading weights")
	missing := loading
	s := start(t, scorerOf(t, &model{}, 0), checks(
		api.Check{Name: "model", Ready: func(context.Context) error { return missing }},
		api.Check{Name: "streams", Ready: func(context.Context) error { return nil }},
	))
	requireJSON(t, `{"status":"alive"}`, string(s.get(t, "/livez").body))

	got := s.get(t, "/readyz")
	require.Equal(t, 503, got.StatusCode)
	require.Equal(t, "1", got.Header.Get("Retry-After"))
	code, _, message := got.failure(t)
	require.Equal(t, "not_ready", code)
	require.Equal(t, "not ready: model (reading weights)", message)
	var body struct{ Checks map[string]string }
	require.NoError(t, json.Unmarshal(got.body, &body))
	require.Equal(t, map[string]string{"model": "reading weights", "streams": "ok"}, body.Checks)

	missing = nil
	require.Eventually(t, func() bool {
		got = s.get(t, "/readyz")
		return got.StatusCode == http.StatusOK
	}, timeout, time.Millisecond)
	requireJSON(t, `{"status":"ready","checks":{"model":"ok","streams":"ok"}}`, string(got.body))
}

// A check that hangs must not hang the probe.
func TestReadinessDoesNotHang(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0), checks(api.Check{Name: "streams", Ready: func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}}))
	got := s.get(t, "/readyz")
	require.Equal(t, 503, got.StatusCode)
	_, _, message := got.failure(t)
	require.Contains(t, message, "streams")
}

func TestModels(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	const v7 = `{"id":"v7","object":"model","created":1800000000,"owned_by":"assay","name":"default","version":"v7","threshold":0.41,"labels":["violation","compliant"],"serving":true,"current":true}`
	const v6 = `{"id":"v6","object":"model","created":0,"owned_by":"assay","name":"default","version":"v6","threshold":0.5,"labels":["violation","compliant"],"serving":true,"current":false}`
	requireJSON(t, `{"object":"list","data":[`+v7+`,`+v6+`]}`, string(s.get(t, "/v1/models").body))
	requireJSON(t, v6, string(s.get(t, "/v1/models/v6").body))
	requireJSON(t, v7, string(s.get(t, "/v1/models/v7").body))
	requireJSON(t, v7, string(s.get(t, "/v1/models/default").body))
}

func TestHeadAndOptions(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	got := s.do(t, "HEAD", "/livez", nil)
	require.Equal(t, 200, got.StatusCode)
	require.Empty(t, got.body)
	for path, allow := range map[string]string{"/v1/score": "POST, OPTIONS", "/v1/models/v7": "GET, HEAD, OPTIONS"} {
		got = s.do(t, "OPTIONS", path, nil, "Origin", "https://elsewhere.example", "Access-Control-Request-Method", "POST")
		require.Equal(t, 204, got.StatusCode)
		require.Equal(t, allow, got.Header.Get("Allow"))
		require.Empty(t, got.Header.Get("Access-Control-Allow-Origin"))
	}
	require.Equal(t, 404, s.do(t, "OPTIONS", "/nowhere", nil).StatusCode)
}

func TestTrustedOrigin(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0), config(func(c *api.Config) { c.TrustedOrigins = []string{"https://console.example"} }))
	require.Equal(t, 200, s.score(t, one("a"), "Origin", "https://console.example", "Sec-Fetch-Site", "cross-site").StatusCode)
	require.Equal(t, 403, s.score(t, one("a"), "Origin", "https://other.example", "Sec-Fetch-Site", "cross-site").StatusCode)
}

func TestRequestID(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	for name, c := range map[string]struct {
		given string
		kept  bool
	}{
		"none":     {"", false},
		"good":     {"step-12/sample_3:a.b=c+d@e", true},
		"space":    {"a b", false},
		"not text": {"\u00e9", false},
		"long":     {strings.Repeat("a", 129), false},
		"longest":  {strings.Repeat("a", 128), true},
	} {
		t.Run(name, func(t *testing.T) {
			id := s.score(t, one("a"), "X-Request-Id", c.given).Header.Get("X-Request-Id")
			require.NotEmpty(t, id)
			require.Equal(t, c.kept, id == c.given)
			require.Equal(t, id, s.log.request(t)["request_id"])
		})
	}
}

func TestAccessLog(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	body := one("a")
	got := s.score(t, body, "Traceparent", trace)
	line := s.log.request(t)
	require.Equal(t, "info", line["level"])
	require.Equal(t, "POST", line["method"])
	require.Equal(t, "/v1/score", line["route"])
	require.Equal(t, trace, line["traceparent"])
	require.EqualValues(t, 200, line["status"])
	require.EqualValues(t, len(body), line["bytes_in"])
	require.EqualValues(t, len(got.body), line["bytes_out"])
	require.EqualValues(t, 1, line["responses"])
	require.Greater(t, line["duration_ms"], 0.0)
	require.NotContains(t, line, "error")

	s.score(t, body, "Traceparent", "00-nonsense-b7ad6b7169203331-01")
	require.NotContains(t, s.log.request(t), "traceparent")
	s.get(t, "/livez")
	require.Equal(t, "debug", s.log.request(t)["level"])
	s.get(t, "/secret%0apath")
	require.Equal(t, "/secret\npath", s.log.request(t)["path"])
}

func TestMetrics(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	s.score(t, one("a"))
	s.score(t, `{"responses":[]}`)
	s.get(t, "/v1/score")
	s.get(t, "/v1/models/v7")
	s.get(t, "/v1/models/v6")
	s.get(t, "/random/path/1")
	s.do(t, "BREW", "/v1/score", nil)
	for range 7 {
		s.log.request(t) // the counters are written just before
	}
	got := s.get(t, "/metrics")
	require.Equal(t, 200, got.StatusCode)
	exposition := strings.Split(string(got.body), "\n")
	for _, line := range []string{
		`assay_http_requests_total{code="200",method="POST",route="/v1/score"} 1`,
		`assay_http_requests_total{code="422",method="POST",route="/v1/score"} 1`,
		`assay_http_requests_total{code="405",method="GET",route="/v1/score"} 1`,
		`assay_http_requests_total{code="405",method="other",route="/v1/score"} 1`,
		`assay_http_requests_total{code="200",method="GET",route="/v1/models/{version}"} 2`,
		`assay_http_requests_total{code="404",method="GET",route="unmatched"} 1`,
		`assay_http_request_duration_seconds_count{route="/v1/score"} 4`,
		`assay_http_request_size_bytes_count{route="/v1/score"} 2`,
		`assay_http_requests_in_flight 1`,
	} {
		require.Contains(t, exposition, line)
	}
	require.NotContains(t, string(got.body), "random")
}

// A sampled trace becomes the exemplar of what its request observes. Exemplars are part
// of OpenMetrics, which a client negotiates.
func TestExemplars(t *testing.T) {
	const sampled, unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-1bf7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	rewards := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "rewards", Buckets: []float64{1}})
	scorer := scorerOf(t, &model{}, 0)
	s := start(t, scorerFunc(func(ctx context.Context, r rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
		trace.Observe(ctx, rewards, 0.5)
		return scorer.Score(ctx, r)
	}))
	for _, test := range []struct {
		traceparent, accept string
		exemplar            bool
	}{
		{"", "application/openmetrics-text", false},
		{unsampled, "application/openmetrics-text", false},
		{sampled, "text/plain", false},
		{sampled, "application/openmetrics-text", true},
	} {
		s.score(t, one("a"), "Traceparent", test.traceparent)
		s.log.request(t) // the metrics are written just before
		got := s.get(t, "/metrics", "Accept", test.accept)
		s.log.request(t)
		require.Contains(t, got.Header.Get("Content-Type"), test.accept)
		require.Equal(t, test.exemplar, strings.Contains(string(got.body), `# {trace_id="0af7651916cd43dd8448eb211c80319c"}`), test)
		require.Equal(t, strings.Contains(test.accept, "openmetrics"), strings.HasSuffix(string(got.body), "# EOF\n"))
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(rewards)
	families, err := registry.Gather()
	require.NoError(t, err)
	exemplar := families[0].GetMetric()[0].GetHistogram().GetBucket()[0].GetExemplar()
	require.Equal(t, "0af7651916cd43dd8448eb211c80319c", exemplar.GetLabel()[0].GetValue(), "the scorer has the trace")
}

func TestCompression(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	plain := s.get(t, "/openapi.json")
	require.Empty(t, plain.Header.Get("Content-Encoding"))
	for accept, compressed := range map[string]bool{
		"gzip": true, "br, gzip;q=0.5": true, "*": true, "GZIP": true,
		"gzip;q=0": false, "br": false, "identity": false, "*;q=0": false, "gzip; q=0.0, *": false,
	} {
		got := s.get(t, "/openapi.json", "Accept-Encoding", accept)
		require.Equal(t, compressed, got.Header.Get("Content-Encoding") == "gzip", accept)
		require.Equal(t, "Accept-Encoding", got.Header.Get("Vary"))
		if compressed {
			z, err := gzip.NewReader(bytes.NewReader(got.body))
			require.NoError(t, err)
			body, err := io.ReadAll(z)
			require.NoError(t, err)
			require.Equal(t, plain.body, body)
		}
	}
	require.Empty(t, s.get(t, "/livez", "Accept-Encoding", "gzip").Header.Get("Content-Encoding"), "small answers stay as they are")
}

func TestOpsHandlerServesOnlyHealth(t *testing.T) {
	s := start(t, scorerOf(t, &model{}, 0))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- s.ServeOps(context.Background(), l) }()
	ops := &service{addr: l.Addr().String(), client: s.client}
	for path, status := range map[string]int{"/livez": 200, "/readyz": 200, "/metrics": 200, "/v1/models": 404, "/openapi.json": 404, "/": 404} {
		r, err := s.client.Get("http://" + ops.addr + path)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		require.Equal(t, status, r.StatusCode, path)
	}
	s.client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	require.NoError(t, s.Shutdown(ctx))
	require.NoError(t, await(t, done, "the end of ServeOps"))
}

func TestDrainAndShutdown(t *testing.T) {
	m := gated()
	s := start(t, scorerOf(t, m, 0))
	answers := make(chan answer, 2)
	go func() { answers <- s.score(t, one("first")) }()
	await(t, m.entered, "the batch")

	s.Drain()
	got := s.get(t, "/readyz")
	require.Equal(t, 503, got.StatusCode)
	code, _, _ := got.failure(t)
	require.Equal(t, "not_ready", code)
	require.True(t, got.Close, "the connection is not kept")
	require.Equal(t, 200, s.get(t, "/livez").StatusCode)

	go func() { answers <- s.score(t, one("second")) }() // still served
	m.release <- struct{}{}
	require.Equal(t, 200, await(t, answers, "the first answer").StatusCode)
	await(t, m.entered, "the second batch")

	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(ctx) }()
	m.release <- struct{}{}
	require.Equal(t, 200, await(t, answers, "the second answer").StatusCode)
	require.NoError(t, await(t, stopped, "the shutdown"))
	require.NoError(t, await(t, s.done, "the end of Serve"))
	_, err := net.Dial("tcp", s.addr)
	require.Error(t, err)
	require.NoError(t, s.Shutdown(ctx), "again")
}

func TestShutdownEndsAtItsDeadline(t *testing.T) {
	m := gated()
	s := start(t, scorerOf(t, m, 0))
	conn := s.dial(t, rawPost(len(one("a")), one("a")))
	await(t, m.entered, "the batch")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Shutdown(ctx), context.Canceled)
	require.NoError(t, await(t, s.done, "the end of Serve"))
	_, err := conn.Read(make([]byte, 1))
	require.Error(t, err)
	require.EqualValues(t, 499, s.log.request(t)["status"], "its caller was let go")
	close(m.release)
}

func TestServeEndsWithItsContext(t *testing.T) {
	server, err := api.New(api.DefaultConfig(), api.Parts{Scorer: scorerOf(t, &model{}, 0), Models: served}, zerolog.Nop(), prometheus.NewRegistry())
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, server.Serve(ctx, l), context.Canceled)
}

func TestServeReportsItsListener(t *testing.T) {
	server, err := api.New(api.DefaultConfig(), api.Parts{Scorer: scorerOf(t, &model{}, 0), Models: served}, zerolog.Nop(), prometheus.NewRegistry())
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.ErrorContains(t, server.Serve(t.Context(), l), l.Addr().String())
}

func TestNewChecksItsConfig(t *testing.T) {
	for setting, change := range map[string]func(*api.Config){
		"MaxBody":         func(c *api.Config) { c.MaxBody = 0 },
		"RequestTimeout":  func(c *api.Config) { c.RequestTimeout = -time.Second },
		"HeaderTimeout":   func(c *api.Config) { c.HeaderTimeout = 0 },
		"IdleTimeout":     func(c *api.Config) { c.IdleTimeout = 0 },
		"RetryAfter":      func(c *api.Config) { c.RetryAfter = 0 },
		"MinRate":         func(c *api.Config) { c.MinRate = 0 },
		"MaxEventStreams": func(c *api.Config) { c.MaxEventStreams = 0 },
		"MaxInferStreams": func(c *api.Config) { c.MaxInferStreams = -1 },
		"TrustedOrigins":  func(c *api.Config) { c.TrustedOrigins = []string{"console.example"} },
	} {
		cfg := api.DefaultConfig()
		change(&cfg)
		_, err := api.New(cfg, api.Parts{}, zerolog.Nop(), prometheus.NewRegistry())
		require.ErrorContains(t, err, setting)
	}
	reg := prometheus.NewRegistry()
	_, err := api.New(api.DefaultConfig(), api.Parts{}, zerolog.Nop(), reg)
	require.NoError(t, err)
	_, err = api.New(api.DefaultConfig(), api.Parts{}, zerolog.Nop(), reg)
	require.ErrorContains(t, err, "metrics")
}

func TestCheckListen(t *testing.T) {
	for addr, exposed := range map[string]bool{
		"127.0.0.1:8080": false, "127.9.9.9:0": false, "localhost:8080": false, "[::1]:8080": false, "[::ffff:127.0.0.1]:1": false,
		":8080": true, "0.0.0.0:8080": true, "[::]:8080": true, "192.168.1.4:80": true, "assay.example:80": true,
	} {
		err := api.CheckListen(addr, false)
		require.Equal(t, exposed, errors.Is(err, api.ErrExposed), addr)
		if exposed {
			require.ErrorContains(t, err, addr)
		} else {
			require.NoError(t, err)
		}
		require.NoError(t, api.CheckListen(addr, true))
	}
	require.ErrorContains(t, api.CheckListen("8080", true), "127.0.0.1:8080")
}
