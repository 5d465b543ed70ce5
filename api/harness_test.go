package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay/api"
	"assay/rewardmodel"
)

func TestMain(m *testing.M) {
	for _, text := range []string{"application/openmetrics-text", "application/x-ndjson", "text/event-stream", "text/html", "text/javascript", "text/css"} {
		openapi3filter.RegisterBodyDecoder(text, openapi3filter.RegisteredBodyDecoder("text/plain"))
	}
	goleak.VerifyTestMain(m)
}

// timeout is the timeout of every wait in a test.
const timeout = 20 * time.Second

// runes is a tokenizer whose ids are the code points of the text.
type runes struct{}

func (runes) IDsContext(ctx context.Context, text string) ([]int32, error) {
	return []rune(text), ctx.Err()
}
func (runes) Frame(ids []int32) []int32 { return append(append([]int32{-1}, ids...), -2) }
func (runes) Special() int              { return 2 }

// model scores text with a '#' as a violation. With a gate, it signals when it is
// entered and waits until it is released.
type model struct {
	entered, release chan struct{}
	err              error
}

func gated() *model { return &model{entered: make(chan struct{}), release: make(chan struct{})} }

func (m *model) Margins(batch []rewardmodel.Sequence) ([]float32, error) {
	if m.entered != nil {
		m.entered <- struct{}{}
		<-m.release
	}
	margins := make([]float32, len(batch))
	for i, sequence := range batch {
		margins[i] = -3
		if bad(sequence.IDs) {
			margins[i] = 3
		}
	}
	return margins, m.err
}

func bad(sequence []int32) bool { return strings.ContainsRune(string(sequence), '#') }

// scorerOf is a real scorer with a test model.
func scorerOf(tb testing.TB, m rewardmodel.Model, queue int) *rewardmodel.Scorer {
	tb.Helper()
	scorer, err := rewardmodel.NewScorer(rewardmodel.ScorerConfig{Name: "default", Version: "v7", MaxQueueTokens: queue}, m, runes{}, nil)
	require.NoError(tb, err)
	tb.Cleanup(scorer.Close)
	return scorer
}

// scorerFunc is an inline Scorer.
type scorerFunc func(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error)

func (f scorerFunc) Score(ctx context.Context, r rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	return f(ctx, r)
}

type catalog []api.Model

func (c catalog) Models(context.Context) ([]api.Model, error) { return c, nil }

var served = catalog{
	{Name: "default", Version: "v7", Created: time.Unix(1_800_000_000, 0), Threshold: 0.41, Labels: []string{"violation", "compliant"}},
	{Name: "default", Version: "v6", Threshold: 0.5, Labels: []string{"violation", "compliant"}},
}

// service is a server on a free port.
type service struct {
	*api.Server
	addr   string
	client *http.Client
	log    logBook
	done   chan error // what Serve returned
}

type option func(*setup)

type setup struct {
	cfg   api.Config
	parts api.Parts
}

func config(change func(*api.Config)) option { return func(s *setup) { change(&s.cfg) } }
func parts(change func(*api.Parts)) option   { return func(s *setup) { change(&s.parts) } }
func checks(c ...api.Check) option           { return parts(func(p *api.Parts) { p.Checks = c }) }

func start(t *testing.T, scorer api.Scorer, options ...option) *service {
	t.Helper()
	with := setup{cfg: api.DefaultConfig(), parts: api.Parts{Scorer: scorer, Models: served}}
	for _, o := range options {
		o(&with)
	}
	s := &service{log: make(logBook, 4096), done: make(chan error, 1)}
	server, err := api.New(with.cfg, with.parts, zerolog.New(s.log), prometheus.NewRegistry())
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.Server, s.addr = server, l.Addr().String()
	s.client = &http.Client{Transport: &http.Transport{DisableCompression: true}}
	go func() { s.done <- server.Serve(context.Background(), l) }()
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		require.NoError(t, server.Shutdown(ctx))
	})
	return s
}

// answer is a response with its body.
type answer struct {
	*http.Response
	body []byte
}

func (a answer) failure(t *testing.T) (code, field, message string) {
	t.Helper()
	var body struct {
		Error struct {
			Code, Field, Message string
			RequestID            string `json:"request_id"`
		}
	}
	require.NoError(t, json.Unmarshal(a.body, &body), "%s", a.body)
	require.Equal(t, a.Header.Get("X-Request-Id"), body.Error.RequestID)
	return body.Error.Code, body.Error.Field, body.Error.Message
}

// do sends a request and validates the response against the OpenAPI document.
func (s *service) do(t *testing.T, method, path string, body io.Reader, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.addr+path, body)
	require.NoError(t, err)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Del(headers[i])
		if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	response, err := s.client.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	a := answer{response, content}
	if response.Header.Get("Content-Encoding") == "" {
		conforms(t, r, a)
	}
	return a
}

func (s *service) score(t *testing.T, body string, headers ...string) answer {
	t.Helper()
	return s.do(t, "POST", "/v1/score", strings.NewReader(body), headers...)
}

func (s *service) get(t *testing.T, path string, headers ...string) answer {
	t.Helper()
	return s.do(t, "GET", path, nil, headers...)
}

// conforms validates a response against openapi.json, if the route is documented.
func conforms(t *testing.T, r *http.Request, a answer) {
	t.Helper()
	route, params, err := routes(t).FindRoute(r)
	if err != nil {
		return
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 a.StatusCode,
		Header:                 a.Header,
		Options:                &openapi3filter.Options{IncludeResponseStatus: true},
	}
	input.SetBodyBytes(a.body)
	require.NoError(t, openapi3filter.ValidateResponse(t.Context(), input), "%s", a.body)
}

// logBook receives log lines that a test can wait for.
type logBook chan map[string]any

func (l logBook) Write(line []byte) (int, error) {
	var entry map[string]any
	if err := json.Unmarshal(line, &entry); err != nil {
		return 0, err
	}
	select {
	case l <- entry:
		return len(line), nil
	default:
		return 0, errors.New("the log book is full")
	}
}

// request waits for the next line of the access log.
func (l logBook) request(t *testing.T) map[string]any {
	t.Helper()
	late := time.After(timeout)
	for {
		select {
		case entry := <-l:
			if entry["message"] == "request" {
				return entry
			}
		case <-late:
			t.Fatal("there is no line in the access log")
		}
	}
}

func await[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(timeout):
		t.Fatalf("%s did not happen", what)
		panic("unreachable")
	}
}

func requireJSON(t *testing.T, want, got string) {
	t.Helper()
	require.JSONEq(t, want, string(bytes.TrimSpace([]byte(got))))
}
