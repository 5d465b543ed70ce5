package api_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/api"
	"assay/api/access"
	"assay/rewardmodel/retrain"
)

// counted counts the readers of a source of events.
type counted struct {
	*eventLog
	readers, asked atomic.Int64
}

func (c *counted) Events(ctx context.Context, after uint64) iter.Seq2[retrain.Event, error] {
	c.readers.Add(1)
	return c.eventLog.Events(ctx, after)
}

func (c *counted) LastEvent(ctx context.Context) (uint64, error) {
	c.asked.Add(1)
	return c.eventLog.LastEvent(ctx)
}

// One reader of the source serves all streams, whose number is limited.
func TestStreamsShareOneReader(t *testing.T) {
	const limit = 20
	l := &counted{eventLog: newEventLog(3)}
	s := start(t, scorerOf(t, &model{}, 0), parts(func(p *api.Parts) { p.Events = l }), config(func(c *api.Config) { c.MaxEventStreams = limit }))
	address := "http://" + s.addr + "/v1/events"
	var followers []*follower
	for range limit {
		f := follow(t, s.client, address)
		for _, id := range []string{"1", "2", "3"} {
			require.Equal(t, id, f.event(t)["id"])
		}
		followers = append(followers, f)
	}
	l.add()
	for _, f := range followers {
		require.Equal(t, "4", f.event(t)["id"])
	}
	require.EqualValues(t, 1, l.readers.Load())
	require.EqualValues(t, 1, l.asked.Load(), "a stream asks the source nothing")

	got := s.get(t, "/v1/events")
	require.Equal(t, 503, got.StatusCode)
	code, _, message := got.failure(t)
	require.Equal(t, "overloaded", code)
	require.Contains(t, message, "20 event streams")
	require.NotEmpty(t, got.Header.Get("Retry-After"))
	require.NoError(t, followers[0].response.Body.Close())
	require.Eventually(t, func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		require.NoError(t, err)
		response, err := s.client.Do(r)
		require.NoError(t, err)
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, timeout, 5*time.Millisecond, "a place that became free is given away")
}

// Memory is bounded. A client that reads too slowly gets an error and must
// reconnect.
func TestSlowFollowerGetsTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newEventLog(0)
		server := startInMemory(t, l, api.DefaultConfig())
		f := follow(t, server.client, "http://assay/v1/events")
		_, ok := f.next()
		require.True(t, ok)
		large := jsontext.Value(`"` + strings.Repeat("x", 1<<20) + `"`)
		for range 40 {
			l.mu.Lock()
			l.events = append(l.events, retrain.Event{Sequence: uint64(len(l.events) + 1), Kind: retrain.EventTrained, Details: large})
			close(l.more)
			l.more = make(chan struct{})
			l.mu.Unlock()
			synctest.Wait() // the log has read it, and the stream is blocked in its client
		}
		var kinds []string
		for {
			fields, more := f.next()
			if !more {
				break
			}
			kinds = append(kinds, fields["event"])
			if fields["event"] == "failed" {
				require.Contains(t, fields["data"], "more slowly")
				require.NotContains(t, fields, "id", "the client resumes after the last event that it saw")
			}
		}
		require.NoError(t, f.lines.Err())
		require.Equal(t, "failed", kinds[len(kinds)-1])
		require.Less(t, len(kinds), 10)
		late := follow(t, server.client, "http://assay/v1/events")
		require.Equal(t, "26", late.event(t)["id"], "16 MiB are held")
		require.NoError(t, late.response.Body.Close())
		server.stop(t)
	})
}

// scripted is a source that yields the given events.
type scripted chan retrain.Event

func (c scripted) Events(ctx context.Context, _ uint64) iter.Seq2[retrain.Event, error] {
	return func(yield func(retrain.Event, error) bool) {
		for {
			select {
			case e := <-c:
				if !yield(e, nil) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

func (scripted) LastEvent(context.Context) (uint64, error) { return 0, nil }

// A stream that was deleted and recreated starts from the beginning for all clients.
func TestRecreatedStreamStartsOver(t *testing.T) {
	source := make(scripted)
	s := start(t, scorerOf(t, &model{}, 0), parts(func(p *api.Parts) { p.Events = source }))
	f := follow(t, s.client, "http://"+s.addr+"/v1/events")
	for _, sequence := range []uint64{7, 8, 2, 3} {
		source <- retrain.Event{Sequence: sequence, Kind: retrain.EventTrained}
		require.Equal(t, fmt.Sprint(sequence), f.event(t)["id"])
	}
	require.Equal(t, "2", follow(t, s.client, "http://"+s.addr+"/v1/events").event(t)["id"])
}

// A stream ends when its token is removed or loses the scope.
func TestRevokedTokenEndsTheStream(t *testing.T) {
	const kept = "kept-kept-kept-kept-1"
	path := filepath.Join(t.TempDir(), "tokens")
	write := func(lines ...string) {
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
	}
	write(feedbackToken+" feedback", adminToken+" admin", kept+" feedback ann")
	loaded, err := access.Load(path, zerolog.Nop())
	require.NoError(t, err)
	l := newEventLog(1)
	s := start(t, scorerOf(t, &model{}, 0), parts(func(p *api.Parts) { p.Events, p.Tokens = l, loaded }))
	watching := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	go func() { defer close(watching); loaded.Watch(ctx) }()
	defer func() { stop(); <-watching }()

	open := func(token string) *follower {
		f := follow(t, s.client, "http://"+s.addr+"/v1/events", "Authorization", "Bearer "+token)
		require.Equal(t, "1", f.event(t)["id"])
		return f
	}
	removed, demoted, stays := open(feedbackToken), open(adminToken), open(kept)
	write(adminToken+" score", kept+" feedback ann")
	for code, f := range map[string]*follower{"unauthorized": removed, "insufficient_scope": demoted} {
		e := f.event(t)
		require.Equal(t, "failed", e["event"])
		require.Contains(t, e["data"], `"code":"`+code+`"`)
		_, err := io.Copy(io.Discard, f.response.Body)
		require.NoError(t, err, "a clean end")
	}
	l.add()
	require.Equal(t, "2", stays.event(t)["id"])
	require.Equal(t, 401, s.get(t, "/v1/events", "Authorization", "Bearer "+feedbackToken).StatusCode)
}

// While the source hangs, the last events are returned from memory within a timeout.
func TestEventsFromMemory(t *testing.T) {
	l := &hanging{eventLog: newEventLog(3)}
	s := start(t, scorerOf(t, &model{}, 0), parts(func(p *api.Parts) { p.Events = l }))
	got := s.get(t, "/v1/events", "Accept", "application/json")
	require.Equal(t, 200, got.StatusCode, "%s", got.body)
	require.Empty(t, got.Header.Get("Age"))
	whole := string(got.body)
	l.hangs.Store(true)
	began := time.Now()
	got = s.get(t, "/v1/events", "Accept", "application/json")
	require.Equal(t, 200, got.StatusCode, "%s", got.body)
	require.Equal(t, whole, string(got.body))
	require.NotEmpty(t, got.Header.Get("Age"))
	require.Less(t, time.Since(began), 2*time.Second)
	require.Equal(t, "1", follow(t, s.client, fmt.Sprintf("http://%s/v1/events", s.addr)).event(t)["id"])
}

// Only the source knows whether an id beyond the end belongs to another stream or to
// a future event. While it does not reply, no event is sent twice.
func TestUnknownPlaceInAnOutage(t *testing.T) {
	l := &hanging{eventLog: newEventLog(3)}
	s := start(t, scorerOf(t, &model{}, 0), parts(func(p *api.Parts) { p.Events = l }))
	require.Equal(t, "1", follow(t, s.client, fmt.Sprintf("http://%s/v1/events", s.addr)).event(t)["id"])
	l.hangs.Store(true)
	got := s.get(t, "/v1/events", "Last-Event-ID", "9")
	require.Equal(t, 503, got.StatusCode, "%s", got.body)
	code, _, _ := got.failure(t)
	require.Equal(t, "not_ready", code)
	require.NotEmpty(t, got.Header.Get("Retry-After"))

	l.hangs.Store(false)
	f := follow(t, s.client, fmt.Sprintf("http://%s/v1/events", s.addr), "Last-Event-ID", "9")
	require.Equal(t, "1", f.event(t)["id"], "it is of another stream")
}

// hanging is a source that stops replying.
type hanging struct {
	*eventLog
	hangs atomic.Bool
}

func (h *hanging) LastEvent(ctx context.Context) (uint64, error) {
	if h.hangs.Load() {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return h.eventLog.LastEvent(ctx)
}
