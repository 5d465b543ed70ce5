// Package livetest tests live sessions over every transport, with clients that behave
// badly alongside clients that do not. It has no other code.
package livetest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay/api"
	"assay/internal/servertls"
	"assay/internal/servertls/tlstest"
	"assay/queue"
	"assay/queue/queuetest"
	"assay/rewardmodel"
	"assay/rewardmodel/live"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deadline is that of each wait of a test. Nothing but a fault makes one take so long.
const deadline = time.Minute

// runes is a tokenizer whose ids are the code points of the text.
type runes struct{}

func (runes) IDsContext(ctx context.Context, text string) ([]int32, error) {
	return []rune(text), ctx.Err()
}
func (runes) Frame(ids []int32) []int32 { return append(append([]int32{-1}, ids...), -2) }
func (runes) Special() int              { return 2 }

// hashes is a model to which the margin of a text grows with the '#' in it.
type hashes struct{}

func (hashes) Margins(batch []rewardmodel.Sequence) ([]float32, error) {
	margins := make([]float32, len(batch))
	for i, sequence := range batch {
		margins[i] = -3 + float32(strings.Count(string(sequence.IDs), "#")) + float32(len(sequence.IDs)%7)/10
	}
	return margins, nil
}

// versions opens sessions of one scorer, and counts the responses that were scored.
type versions struct {
	*rewardmodel.Scorer
	scored *atomic.Int64
}

func (v versions) Live(ctx context.Context, r rewardmodel.LiveRequest) (*rewardmodel.Live, func(), error) {
	r.Scored = func(context.Context, rewardmodel.Request, rewardmodel.ScoreResponse) { v.scored.Add(1) }
	session, err := v.Scorer.Live(ctx, r)
	return session, func() {}, err
}

// settings are the limits of a service.
type settings struct {
	live   live.Limits
	memory int64 // of all requests, in bytes; 0: no limit
	change func(*api.Config)
}

// service is a service with live sessions over the transport of a test.
type service struct {
	http, grpc string // addresses
	secure     *tlstest.Authority
	queue      *queue.Queue
	sessions   *live.Sessions
	memory     *rewardmodel.Memory
	metrics    *prometheus.Registry
	scored     atomic.Int64 // responses that were counted as scored
}

func start(t *testing.T, over transport, with settings) *service {
	t.Helper()
	s := &service{metrics: prometheus.NewRegistry()}
	scorer, err := rewardmodel.NewScorer(rewardmodel.ScorerConfig{Name: "default", Version: "v7"}, hashes{}, runes{}, nil)
	require.NoError(t, err)
	t.Cleanup(scorer.Close)
	if with.memory > 0 {
		s.memory, err = rewardmodel.NewMemory(with.memory, s.metrics)
		require.NoError(t, err)
	}
	s.sessions = live.New(versions{scorer, &s.scored}, with.live)
	require.NoError(t, s.metrics.Register(s.sessions))
	if over.queue {
		cfg := queuetest.Config(t)
		cfg.Service.Live, cfg.Service.Memory = s.sessions, s.memory
		s.queue = queuetest.Open(t, cfg)
		require.NoError(t, s.queue.Start(t.Context(), scorer))
	}
	s.startAPI(t, over, with, scorer)
	t.Cleanup(s.sessions.Close) // first
	return s
}

func (s *service) startAPI(t *testing.T, over transport, with settings, scorer api.Scorer) {
	t.Helper()
	cfg := api.DefaultConfig()
	if with.change != nil {
		with.change(&cfg)
	}
	parts := api.Parts{Scorer: scorer, Live: s.sessions, Memory: s.memory}
	if over.secure {
		s.secure = tlstest.NewAuthority(t)
		cert, key, _ := s.secure.Write(t, t.TempDir())
		identity, err := servertls.Load(servertls.Files{Cert: cert, Key: key}, zerolog.Nop())
		require.NoError(t, err)
		parts.TLS = identity
	}
	server, err := api.New(cfg, parts, zerolog.Nop(), prometheus.NewRegistry())
	require.NoError(t, err)
	ended := make(chan error, 2)
	for address, serve := range map[*string]func(context.Context, net.Listener) error{&s.http: server.Serve, &s.grpc: server.ServeGRPC} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		*address = l.Addr().String()
		go func() { ended <- serve(context.Background(), l) }()
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		require.NoError(t, server.Shutdown(ctx))
		require.NoError(t, <-ended)
		require.NoError(t, <-ended)
	})
}

// url is that of an HTTP path.
func (s *service) url(path string) string {
	if s.secure != nil {
		return "https://" + s.http + path
	}
	return "http://" + s.http + path
}

// client is an HTTP client with connections of its own.
func (s *service) client(t *testing.T, protocol func(*http.Protocols)) (*http.Client, *dialer) {
	d := &dialer{}
	transport := &http.Transport{DialContext: d.dial, Protocols: new(http.Protocols)}
	protocol(transport.Protocols)
	if s.secure != nil {
		transport.TLSClientConfig = s.secure.Client(t, "")
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}, d
}

// score is the result of POST /v1/score for a text.
func (s *service) score(t *testing.T, id, text string) result {
	t.Helper()
	client, _ := s.client(t, func(p *http.Protocols) { p.SetHTTP1(true) })
	body, err := json.Marshal(map[string]any{"responses": []any{map[string]any{"id": id, "response": text}}})
	require.NoError(t, err)
	response, err := client.Post(s.url("/v1/score"), "application/json", bytes.NewReader(body))
	require.NoError(t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	var answer struct{ Results []result }
	require.NoError(t, json.Unmarshal(content, &answer), "%s", content)
	require.Len(t, answer.Results, 1, "%s", content)
	return answer.Results[0]
}

// value returns a metric of the sessions or of the memory; label is that of its only
// label, if it has one.
func (s *service) value(t *testing.T, name, label string) float64 {
	families, err := s.metrics.Gather()
	if err != nil {
		t.Error(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return -1
}

// eventually waits until a metric has a value.
func (s *service) eventually(t *testing.T, name, label string, want float64) {
	t.Helper()
	var got float64
	for start := time.Now(); time.Since(start) < deadline; {
		if got = s.value(t, name, label); got == want {
			return
		}
		select {
		case <-t.Context().Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Fatalf("%s of %q is %v, not %v", name, label, got, want)
}

// ended waits until so many sessions have ended with an outcome.
func (s *service) ended(t *testing.T, outcome string, n int) {
	t.Helper()
	s.eventually(t, "assay_live_sessions_ended_total", outcome, float64(n))
}

// empty waits until no session is open and nothing holds memory.
func (s *service) empty(t *testing.T) {
	t.Helper()
	s.eventually(t, "assay_live_sessions", "", 0)
	s.eventually(t, "assay_request_memory_bytes", "", 0)
}
