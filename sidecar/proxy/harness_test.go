package proxy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/sidecar/proxy"
)

// marker makes a sentence violate.
const marker = "ZQXJ"

// sentenceGuard settles a sentence at ". ", and finds those with the marker violating.
type sentenceGuard struct {
	mu      sync.Mutex
	prompts []string
	open    int
	fail    func(text string) error // nil: never
	wait    func(ctx context.Context)
	pieces  func(piece string) // nil: nobody counts
	asWhole bool               // every text violates as a whole, by its first sentence
}

func (g *sentenceGuard) Ready(context.Context) error { return nil }

func (g *sentenceGuard) Open(_ context.Context, prompt string, report func(proxy.Event)) (proxy.Session, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.prompts = append(g.prompts, prompt)
	g.open++
	return &sentenceSession{guard: g, report: report, verdict: proxy.Verdict{Compliant: true, Reward: 0.9, Violation: 0.1, Model: "test"}}, nil
}

// sessions are those that have not ended.
func (g *sentenceGuard) sessions() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

type sentenceSession struct {
	guard   *sentenceGuard
	report  func(proxy.Event)
	text    string
	settled int
	verdict proxy.Verdict
	end     sync.Once
}

func (s *sentenceSession) Feed(ctx context.Context, piece string) error {
	if s.guard.pieces != nil {
		s.guard.pieces(piece)
	}
	s.text += piece
	if s.guard.wait != nil {
		s.guard.wait(ctx)
	}
	if s.guard.fail != nil {
		if err := s.guard.fail(s.text); err != nil {
			return err
		}
	}
	for {
		_, rest, found := strings.Cut(s.text[s.settled:], ". ")
		if !found {
			return nil
		}
		s.settle(len(s.text) - len(rest) - 1)
		s.settled++ // the space
	}
}

func (s *sentenceSession) settle(end int) {
	e := proxy.Event{Start: s.settled, End: end, Violation: 0.1}
	if strings.Contains(s.text[s.settled:end], marker) {
		e.Violation, e.Violating = 0.9, true
		s.verdict.Compliant, s.verdict.Violation, s.verdict.Reward = false, 0.9, 0.1
	}
	e.Text = s.verdict
	s.settled = end
	s.report(e)
}

func (s *sentenceSession) Done() <-chan struct{} { return nil }

func (s *sentenceSession) Close(context.Context) (proxy.Verdict, error) {
	s.End()
	if strings.TrimSpace(s.text) == "" {
		return proxy.Verdict{Violation: 1, Empty: true, Model: "test"}, nil
	}
	if s.settled < len(s.text) {
		s.settle(len(s.text))
	}
	if s.guard.asWhole {
		return proxy.Verdict{Violation: 0.95, Witness: &proxy.Witness{End: 5, Violation: 0.95}}, nil
	}
	return s.verdict, nil
}

func (s *sentenceSession) End() {
	s.end.Do(func() {
		s.guard.mu.Lock()
		s.guard.open--
		s.guard.mu.Unlock()
	})
}

// enforced is what a mode must release of a text, by the rule of sentenceGuard.
func enforced(mode proxy.Mode, text string) string {
	var out strings.Builder
	for text != "" {
		sentence, rest, found := strings.Cut(text, ". ")
		if found {
			sentence += "."
		}
		text = rest
		switch {
		case !strings.Contains(sentence, marker):
			out.WriteString(sentence)
		case mode == proxy.Redact:
			out.WriteString("[removed]")
		default:
			return out.String()
		}
		if found {
			out.WriteString(" ")
		}
	}
	return out.String()
}

// served is a proxy in front of an upstream.
type served struct {
	url      string
	guard    *sentenceGuard
	registry *prometheus.Registry
	server   *httptest.Server
}

// start starts a proxy in front of upstream.
func start(t testing.TB, upstream http.HandlerFunc, change func(*proxy.Config)) *served {
	t.Helper()
	back := httptest.NewServer(upstream)
	t.Cleanup(back.Close)
	config := proxy.DefaultConfig()
	var err error
	config.Upstream, err = url.Parse(back.URL)
	require.NoError(t, err)
	if change != nil {
		change(&config)
	}
	s := &served{guard: &sentenceGuard{}, registry: prometheus.NewRegistry()}
	p, err := proxy.New(config, s.guard, zerolog.Nop(), s.registry)
	require.NoError(t, err)
	s.server = httptest.NewServer(p)
	t.Cleanup(func() {
		s.server.Close()
		p.Close()
		http.DefaultClient.CloseIdleConnections()
		require.Zero(t, s.guard.sessions())
	})
	s.url = s.server.URL
	return s
}

// counter is a counter with one label.
func (s *served) counter(t testing.TB, name, label string) prometheus.Collector {
	t.Helper()
	families, err := s.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == label {
				c := prometheus.NewCounter(prometheus.CounterOpts{Name: "found", Help: "found"})
				c.Add(m.GetCounter().GetValue())
				return c
			}
		}
	}
	t.Fatalf("no %s of %s", name, label)
	return nil
}

func mode(m proxy.Mode) func(*proxy.Config) { return func(c *proxy.Config) { c.Mode = m } }

// reply is a response whose body has been read.
type reply struct {
	StatusCode      int
	Header, Trailer http.Header
}

// post sends a request and returns the response with its body.
func (s *served) post(t testing.TB, path, body string) (reply, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		require.NoError(t, err)
	}
	return reply{response.StatusCode, response.Header, response.Trailer}, string(b)
}

// script is an upstream that sends lines of data, each as an event and flushed.
func script(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, e := range events {
			fmt.Fprint(w, e)
			_ = http.NewResponseController(w).Flush()
			if r.Context().Err() != nil {
				return
			}
		}
	}
}

// whole is an upstream that sends one JSON body.
func whole(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, body)
	}
}

func data(value any) string {
	b, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return "data: " + string(b) + "\n\n"
}

type object = map[string]any

// events are the data of the events in a body.
func events(t testing.TB, body string) (out []object, done bool) {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(body))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		text, found := strings.CutPrefix(lines.Text(), "data: ")
		if !found {
			continue
		}
		if text == "[DONE]" {
			done = true
			continue
		}
		var o object
		require.NoError(t, json.Unmarshal([]byte(text), &o), text)
		out = append(out, o)
	}
	return out, done
}

// choiceTexts are the texts and finish reasons of the choices in the chunks of a stream.
func choiceTexts(t testing.TB, chunks []object, field string) (texts, reasons map[int]string) {
	t.Helper()
	texts, reasons = map[int]string{}, map[int]string{}
	for _, c := range chunks {
		choices, _ := c["choices"].([]any)
		for _, one := range choices {
			choice := one.(object)
			index := int(choice["index"].(float64))
			from := choice
			if delta, ok := choice["delta"].(object); ok {
				from = delta
			}
			text, _ := from[field].(string)
			texts[index] += text
			if reason, ok := choice["finish_reason"].(string); ok {
				reasons[index] = reason
			}
		}
	}
	return texts, reasons
}

// report is the report in the last event.
func report(t testing.TB, chunks []object) object {
	t.Helper()
	require.NotEmpty(t, chunks)
	last := chunks[len(chunks)-1]
	if response, ok := last["response"].(object); ok {
		last = response
	}
	r, ok := last["assay"].(object)
	require.True(t, ok, "%v", last)
	return r
}
