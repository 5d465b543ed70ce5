package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/api"
	"assay/rewardmodel"
	"assay/rewardmodel/retrain"
)

// eventLog is a stream of events in memory.
type eventLog struct {
	mu      sync.Mutex
	events  []retrain.Event
	more    chan struct{} // closed by add
	failure error         // ends Events after the existing ones; also of LastEvent, without events
	damaged uint64        // the sequence of an event that cannot be read
}

func newEventLog(n int) *eventLog {
	l := &eventLog{more: make(chan struct{})}
	for range n {
		l.add()
	}
	return l
}

func (l *eventLog) add() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, retrain.Event{
		Sequence: uint64(len(l.events) + 1), Kind: retrain.EventPromoted, Time: time.Unix(1_800_000_000, 0).UTC(), Version: "v7",
		Reason: "better:\n<by far>", Details: jsontext.Value("{\n\"auroc\": 0.8}"), Key: "k",
	})
	close(l.more)
	l.more = make(chan struct{})
}

func (l *eventLog) since(after uint64) ([]retrain.Event, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[min(after, uint64(len(l.events))):], l.more, l.failure
}

func (l *eventLog) Events(ctx context.Context, after uint64) iter.Seq2[retrain.Event, error] {
	return func(yield func(retrain.Event, error) bool) {
		for {
			events, more, failure := l.since(after)
			for _, e := range events {
				after = e.Sequence
				if e.Sequence == l.damaged && !yield(retrain.Event{Sequence: after}, errors.New("secret detail")) {
					return
				}
				if e.Sequence != l.damaged && !yield(e, nil) {
					return
				}
			}
			if failure != nil {
				yield(retrain.Event{}, failure)
				return
			}
			select {
			case <-more:
			case <-ctx.Done():
				yield(retrain.Event{}, ctx.Err())
				return
			}
		}
	}
}

func (l *eventLog) LastEvent(context.Context) (uint64, error) {
	events, _, failure := l.since(0)
	if len(events) == 0 {
		return 0, failure
	}
	return events[len(events)-1].Sequence, nil
}

func withEvents(t *testing.T, l *eventLog) *service {
	t.Helper()
	return start(t, scorerOf(t, &model{}, 0), parts(func(p *api.Parts) { p.Events = l }))
}

// follower reads a stream like a browser.
type follower struct {
	response *http.Response
	lines    *bufio.Scanner
	lastID   string
}

func follow(t *testing.T, client *http.Client, address string, headers ...string) *follower {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := client.Do(r)
	require.NoError(t, err)
	require.Equal(t, 200, response.StatusCode)
	require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	t.Cleanup(func() { _ = response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 4<<20)
	return &follower{response: response, lines: lines}
}

// next returns the fields of the next block that has any; false at the end.
func (f *follower) next() (map[string]string, bool) {
	fields := map[string]string{}
	for f.lines.Scan() {
		if f.lines.Text() == "" {
			return fields, true
		}
		name, value, _ := strings.Cut(f.lines.Text(), ":")
		fields[name] = strings.TrimPrefix(value, " ")
		if name == "id" {
			f.lastID = value[1:]
		}
	}
	return nil, false
}

func (f *follower) event(t *testing.T) map[string]string {
	t.Helper()
	for {
		fields, ok := f.next()
		require.True(t, ok, "the stream ended: %v", f.lines.Err())
		if _, ok := fields["data"]; ok {
			return fields
		}
	}
}

func TestEventsAreFollowed(t *testing.T) {
	l := newEventLog(2)
	s := withEvents(t, l)
	address := "http://" + s.addr + "/v1/events"
	f := follow(t, s.client, address)
	first, ok := f.next()
	require.True(t, ok)
	require.Equal(t, map[string]string{"retry": "2000"}, first)
	for _, id := range []string{"1", "2"} {
		e := f.event(t)
		require.Equal(t, id, e["id"])
		require.Equal(t, "model.promoted", e["event"])
		requireJSON(t, `{"sequence":`+id+`,"kind":"model.promoted","time":"2027-01-15T08:00:00Z","version":"v7","reason":"better:\n<by far>","details":{"auroc":0.8}}`, e["data"])
	}
	l.add()
	require.Equal(t, "3", f.event(t)["id"])
	require.NoError(t, f.response.Body.Close())
	line := s.log.request(t)
	require.EqualValues(t, 200, line["status"])
	require.Equal(t, "/v1/events", line["route"])

	l.add()
	again := follow(t, s.client, address+"?after=0&n=1", "Last-Event-ID", f.lastID)
	require.Equal(t, "4", again.event(t)["id"], "nothing twice and nothing lost")
	for query, id := range map[string]string{"": "1", "?after=2": "3", "?n=1": "4", "?n=3": "2", "?n=9": "1", "?after=99": "1"} {
		require.Equal(t, id, follow(t, s.client, address+query).event(t)["id"], query)
	}
	fresh := follow(t, s.client, address+"?n=0")
	caughtUp := follow(t, s.client, address+"?after=4")
	l.add()
	require.Equal(t, "5", fresh.event(t)["id"])
	require.Equal(t, "5", caughtUp.event(t)["id"])
}

func TestEventsAsAList(t *testing.T) {
	l := newEventLog(0)
	s := withEvents(t, l)
	list := func(query string, accept ...string) []int {
		got := s.get(t, "/v1/events"+query, "Accept", strings.Join(append(accept, "application/json"), ", "))
		require.Equal(t, 200, got.StatusCode, "%s", got.body)
		require.Equal(t, "application/json", got.Header.Get("Content-Type"))
		var events []struct{ Sequence int }
		require.NoError(t, json.Unmarshal(got.body, &events))
		sequences := []int{}
		for _, e := range events {
			sequences = append(sequences, e.Sequence)
		}
		return sequences
	}
	requireJSON(t, `[]`, string(s.get(t, "/v1/events", "Accept", "application/json").body))
	for range 4 {
		l.add()
	}
	require.Equal(t, []int{1, 2, 3, 4}, list("", "text/html"))
	require.Equal(t, []int{3, 4}, list("?n=2"))
	require.Equal(t, []int{4}, list("?n=2&after=3"))
	require.Equal(t, []int{}, list("?after=4"))
}

func TestBadEventRequests(t *testing.T) {
	s := withEvents(t, newEventLog(1))
	for _, c := range []struct {
		query, field string
		headers      []string
	}{
		{"?n=1001", "n", nil},
		{"?n=-1", "n", nil},
		{"?after=x", "after", nil},
		{"?after=-1", "after", nil},
		{"", "Last-Event-ID", []string{"Last-Event-ID", "x"}},
		{"?after=-1", "after", []string{"Last-Event-ID", "1"}},
		{"?n=0", "n", []string{"Accept", "application/json"}},
		{"?after=x", "after", []string{"Accept", "application/json"}},
	} {
		got := s.get(t, "/v1/events"+c.query, c.headers...)
		require.Equal(t, 400, got.StatusCode, c.query)
		_, field, _ := got.failure(t)
		require.Equal(t, c.field, field)
	}
}

func TestEventsBeforeTheyAreThere(t *testing.T) {
	l := newEventLog(0)
	l.failure = rewardmodel.ErrNotReady
	s := withEvents(t, l)
	got := s.get(t, "/v1/events")
	require.Equal(t, 503, got.StatusCode)
	require.NotEmpty(t, got.Header.Get("Retry-After"))
	require.Equal(t, 503, s.get(t, "/v1/events", "Accept", "application/json").StatusCode)
}

func TestFailingEventsSayWhy(t *testing.T) {
	l := newEventLog(1)
	l.failure = errors.New("secret detail")
	s := withEvents(t, l)
	f := follow(t, s.client, "http://"+s.addr+"/v1/events")
	require.Equal(t, "1", f.event(t)["id"])
	e := f.event(t)
	require.Equal(t, "failed", e["event"])
	require.Contains(t, e["data"], `{"error":{"code":"internal"`)
	require.NotContains(t, e["data"], "secret")
	_, more := f.next()
	require.False(t, more)
	require.NoError(t, f.lines.Err(), "a clean end")
	require.Equal(t, "secret detail", s.log.request(t)["error"])
}

func TestDamagedEventIsPassedOver(t *testing.T) {
	l := newEventLog(3)
	l.damaged = 2
	s := withEvents(t, l)
	f := follow(t, s.client, "http://"+s.addr+"/v1/events?after=1")
	e := f.event(t)
	require.Equal(t, "failed", e["event"])
	require.Equal(t, "2", e["id"], "a client that reconnects here continues after it")
	require.Equal(t, "3", f.event(t)["id"])
}

func TestDrainEndsEvents(t *testing.T) {
	s := withEvents(t, newEventLog(1))
	f := follow(t, s.client, "http://"+s.addr+"/v1/events")
	f.event(t)
	s.Drain()
	_, more := f.next()
	require.False(t, more)
	require.NoError(t, f.lines.Err(), "a clean end")

	late := follow(t, s.client, "http://"+s.addr+"/v1/events?n=0")
	_, err := io.Copy(io.Discard, late.response.Body)
	require.NoError(t, err, "a browser retries only after a 200")
}

// pipes is a listener with connections in memory, for synctest.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, open := <-p
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }
func (pipes) Close() error   { return nil }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p <- server
	return client, nil
}

// memoryServer is a server of events whose connections are in memory.
type memoryServer struct {
	*api.Server
	client   *http.Client
	listener pipes
	done     chan error
}

func startInMemory(t *testing.T, l api.EventSource, cfg api.Config) *memoryServer {
	t.Helper()
	cfg.Insecure = true
	server, err := api.New(cfg, api.Parts{Events: l}, zerolog.Nop(), prometheus.NewRegistry())
	require.NoError(t, err)
	s := &memoryServer{Server: server, listener: make(pipes), done: make(chan error)}
	s.client = &http.Client{Transport: &http.Transport{DialContext: s.listener.dial}}
	go func() { s.done <- server.Serve(context.Background(), s.listener) }()
	return s
}

func (s *memoryServer) stop(t *testing.T) {
	t.Helper()
	s.client.CloseIdleConnections()
	close(s.listener)
	require.ErrorIs(t, <-s.done, net.ErrClosed)
	require.NoError(t, s.Shutdown(t.Context()))
}

// A stream outlives every deadline of its connection, and has regular keep-alives.
func TestEventsOutliveDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newEventLog(0)
		cfg := api.DefaultConfig()
		cfg.RequestTimeout, cfg.IdleTimeout = time.Second, time.Second
		server := startInMemory(t, l, cfg)
		f := follow(t, server.client, "http://assay/v1/events")

		began := time.Now()
		_, ok := f.next() // retry
		require.True(t, ok)
		for i := range 40 {
			fields, ok := f.next()
			require.True(t, ok, "%v", f.lines.Err())
			require.Equal(t, map[string]string{"": "still here"}, fields)
			require.Equal(t, time.Duration(i+1)*15*time.Second, time.Since(began))
		}
		l.add()
		require.Equal(t, "1", f.event(t)["id"])
		require.NoError(t, f.response.Body.Close())
		server.stop(t)
	})
}

// A client that does not read blocks neither the stream nor its source.
func TestStalledClientIsDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := startInMemory(t, newEventLog(0), api.DefaultConfig())
		conn, err := server.listener.dial(t.Context(), "", "")
		require.NoError(t, err)
		_, err = io.WriteString(conn, "GET /v1/events HTTP/1.1\r\nHost: assay\r\n\r\n")
		require.NoError(t, err)
		<-time.After(time.Minute)
		synctest.Wait()
		_, err = conn.Read(make([]byte, 1))
		require.Error(t, err)
		server.stop(t)
	})
}
