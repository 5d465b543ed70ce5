package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/jstest"
	"assay/rewardmodel"
	"assay/rewardmodel/live"
)

// codepoints is a tokenizer whose ids are the code points of the text.
type codepoints struct{}

func (codepoints) IDsContext(ctx context.Context, text string) ([]int32, error) {
	return []rune(text), ctx.Err()
}
func (codepoints) Frame(ids []int32) []int32 { return append(append([]int32{-1}, ids...), -2) }
func (codepoints) Special() int              { return 2 }

// hashes is a model to which a text with '#' is a violation. It waits for gate, if that
// is not nil.
type hashes struct{ gate chan struct{} }

func (m hashes) Margins(batch []rewardmodel.Sequence) ([]float32, error) {
	if m.gate != nil {
		<-m.gate
	}
	margins := make([]float32, len(batch))
	for i, sequence := range batch {
		margins[i] = -3
		if strings.ContainsRune(string(sequence.IDs), '#') {
			margins[i] = 3
		}
	}
	return margins, nil
}

// versionOf opens sessions with one scorer.
type versionOf struct{ *rewardmodel.Scorer }

func (v versionOf) Live(ctx context.Context, request rewardmodel.LiveRequest) (*rewardmodel.Live, func(), error) {
	session, err := v.Scorer.Live(ctx, request)
	return session, func() {}, err
}

func liveScorer(t *testing.T, m rewardmodel.Model) versionOf {
	t.Helper()
	scorer, err := rewardmodel.NewScorer(rewardmodel.ScorerConfig{Name: "fake", Version: "v7", Numerics: "3/x"}, m, codepoints{}, nil)
	require.NoError(t, err)
	t.Cleanup(scorer.Close)
	return versionOf{scorer}
}

// liveConfig adds live sessions to a configuration.
func liveConfig(t *testing.T, cfg Config, m rewardmodel.Model) (Config, versionOf) {
	t.Helper()
	scorer := liveScorer(t, m)
	cfg.Service.Live = live.New(scorer, live.Limits{})
	return cfg, scorer
}

// sendLive sends a message of a session and returns its reply.
func sendLive(t *testing.T, nc *nats.Conn, subject, body string, sequence int) *nats.Msg {
	t.Helper()
	msg := &nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{}}
	if sequence > 0 {
		msg.Header.Set(HeaderSequence, strconv.Itoa(sequence))
	}
	reply, err := nc.RequestMsg(msg, jstest.Timeout)
	require.NoError(t, err)
	return reply
}

// open opens a session and returns its subject.
func open(t *testing.T, nc *nats.Conn, body string) string {
	t.Helper()
	reply := sendLive(t, nc, SubjectLive, body, 0)
	require.Empty(t, reply.Header.Get(micro.ErrorHeader))
	var opened liveJSON
	require.NoError(t, json.Unmarshal(reply.Data, &opened))
	require.Equal(t, 4, strings.Count(opened.Subject, "."))
	require.True(t, strings.HasSuffix(opened.Subject, "."+opened.ID))
	return opened.Subject
}

// lines are the messages in replies.
func lines(t *testing.T, replies ...*nats.Msg) (events []map[string]any) {
	t.Helper()
	for _, reply := range replies {
		require.Empty(t, reply.Header.Get(micro.ErrorHeader))
		for line := range strings.Lines(string(reply.Data)) {
			var event map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &event))
			events = append(events, event)
		}
	}
	return events
}

func refusedWith(t *testing.T, reply *nats.Msg, code, text string) {
	t.Helper()
	require.Equal(t, code, reply.Header.Get(micro.ErrorCodeHeader), string(reply.Data))
	require.Contains(t, string(reply.Data), text)
}

func TestLiveSession(t *testing.T) {
	t.Parallel()
	cfg, scorer := liveConfig(t, testConfig(t), hashes{})
	q := startQueue(t, cfg, scorer)
	nc, err := nats.Connect(q.URL())
	require.NoError(t, err)
	defer nc.Close()

	subject := open(t, nc, `{"open":{"id":"r1","options":{"reward":"raw"}}}`)
	text := "Drink some water. You are a # person. Goodbye."
	var replies []*nats.Msg
	for i, piece := range strings.SplitAfter(text, " ") {
		replies = append(replies, sendLive(t, nc, subject, fmt.Sprintf(`{"text":%q}`, piece), i+1))
	}
	closing := sendLive(t, nc, subject, `{"close":{}}`, 0)
	require.Equal(t, "v7", closing.Header.Get(HeaderModelVersion))
	require.Equal(t, "3/x", closing.Header.Get("Assay-Numerics"))
	events := lines(t, append(replies, closing)...)
	require.Len(t, events, 4)
	for i, event := range events[:3] {
		require.EqualValues(t, i, event["utterance"].(map[string]any)["index"])
	}
	require.InDelta(t, 0.95, events[2]["violation"], 0.01)

	// The result is that of a score request, of which the session had the options.
	last := events[3]["result"].(map[string]any)
	reply := sendLive(t, nc, SubjectScore, fmt.Sprintf(`{"responses":[{"id":"r1","response":%q}],"options":{"reward":"raw"}}`, text), 0)
	scored := lines(t, reply)[0]
	want := scored["results"].([]any)[0].(map[string]any)
	for _, field := range []string{"id", "reward", "violation", "witness", "compliant"} {
		require.Equal(t, want[field], last[field], field)
	}
	require.Equal(t, scored["model"], events[3]["model"])

	refusedWith(t, sendLive(t, nc, subject, `{"text":"x"}`, 0), "404", "the session has ended")
	require.EqualValues(t, len(replies)+2, testutil.ToFloat64(q.service.metrics.live.WithLabelValues("200")))
	require.EqualValues(t, 1, testutil.ToFloat64(q.service.metrics.live.WithLabelValues("404")))
}

// A client need not wait for replies: what waits together is scored together, and each
// message has its reply, in order.
func TestLiveSessionWithoutWaiting(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	cfg, scorer := liveConfig(t, testConfig(t), hashes{gate})
	q := startQueue(t, cfg, scorer)
	subject := open(t, q.nc, `{"open":{}}`)
	inbox, err := q.nc.SubscribeSync(q.nc.NewRespInbox())
	require.NoError(t, err)
	const n = 200
	for i := range n {
		body := fmt.Sprintf(`{"text":"Sentence %d.\n\n"}`, i)
		if i == n-1 {
			body = `{"close":{}}`
		}
		msg := &nats.Msg{Subject: subject, Reply: inbox.Subject, Data: []byte(body), Header: nats.Header{HeaderSequence: {strconv.Itoa(i + 1)}}}
		require.NoError(t, q.nc.PublishMsg(msg))
	}
	close(gate)
	var replies []*nats.Msg
	for range n {
		reply, err := inbox.NextMsg(jstest.Timeout)
		require.NoError(t, err)
		replies = append(replies, reply)
	}
	events := lines(t, replies...)
	require.Len(t, events, n)
	for i, event := range events[:n-1] {
		require.EqualValues(t, i, event["utterance"].(map[string]any)["index"])
	}
	require.Contains(t, events[n-1], "result")
}

func TestLiveSessionErrors(t *testing.T) {
	t.Parallel()
	cfg, scorer := liveConfig(t, testConfig(t), hashes{})
	q := startQueue(t, cfg, scorer)
	t.Run("open", func(t *testing.T) {
		for body, wants := range map[string]string{
			`{"text":"x"}`: "send",
			`{"open":`:     "ends too early",
			`{"open":{"options":{"reward":"golden"}}}`:     "open.options.reward",
			`{"open":{"model":"another"}}`:                 `"not_found"`,
			`{"open":{},"close":{}}`:                       "together",
			`{"open":{"prompt":"` + "\\ud800" + `"}}`:      "surrogate",
			`{"open":{"options":{"aggregate":"unheard"}}}`: "open.options.aggregate",
		} {
			reply := sendLive(t, q.nc, SubjectLive, body, 0)
			require.NotEmpty(t, reply.Header.Get(micro.ErrorCodeHeader), body)
			if body != `{"text":"x"}` {
				require.Contains(t, string(reply.Data), wants, body)
			}
		}
	})
	for name, tc := range map[string]struct {
		body, code, wants string
		sequence          int
	}{
		"lost":       {`{"text":"x"}`, "400", "message 3 arrived where 2 was expected", 3},
		"repeated":   {`{"text":"x"}`, "400", "message 1 arrived where 2 was expected", 1},
		"broken":     {`{"text":`, "400", "ends too early", 2},
		"open twice": {`{"open":{}}`, "400", "the session is open", 2},
		"type":       {`{"text":7}`, "400", `"field":"text"`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			subject := open(t, q.nc, `{"open":{}}`)
			require.Empty(t, lines(t, sendLive(t, q.nc, subject, `{"text":"x"}`, 1)))
			refusedWith(t, sendLive(t, q.nc, subject, tc.body, tc.sequence), tc.code, tc.wants)
			after := sendLive(t, q.nc, subject, `{"text":"x"}`, 2)
			require.NotEmpty(t, after.Header.Get(micro.ErrorCodeHeader), "an error ends the session")
		})
	}
	t.Run("no reply subject", func(t *testing.T) {
		subject := open(t, q.nc, `{"open":{}}`)
		require.NoError(t, q.nc.Publish(subject, []byte(`{"text":"x"}`)))
		reply := sendLive(t, q.nc, subject, `{"text":"x"}`, 0)
		require.NotEmpty(t, reply.Header.Get(micro.ErrorCodeHeader))
	})
	t.Run("ended", func(t *testing.T) {
		subject := open(t, q.nc, `{"open":{}}`)
		session, err := q.service.live.find(subject)
		require.NoError(t, err)
		session.session.End()
		<-session.session.Done()
		refusedWith(t, sendLive(t, q.nc, subject, `{"text":"x"}`, 0), "404", "the session has ended")
	})
}

// The limits of live.Sessions apply, and an error says which.
func TestLiveSessionLimits(t *testing.T) {
	t.Parallel()
	scorer := liveScorer(t, hashes{})
	cfg := testConfig(t)
	cfg.Service.Live = live.New(scorer, live.Limits{Sessions: 2, Bytes: 20, Idle: 200 * time.Millisecond})
	q := startQueue(t, cfg, scorer)
	long, idle := open(t, q.nc, `{"open":{}}`), open(t, q.nc, `{"open":{}}`)
	full := sendLive(t, q.nc, SubjectLive, `{"open":{}}`, 0)
	refusedWith(t, full, "503", "live sessions are open")
	require.Equal(t, "1", full.Header.Get(HeaderRetryAfter))
	refusedWith(t, sendLive(t, q.nc, long, `{"text":"more than twenty bytes of text"}`, 0), "413", "the limit of a live session")
	session, err := q.service.live.find(idle)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := q.service.live.find(idle)
		return errors.Is(err, live.ErrIdle) && errors.Is(session.failure(), live.ErrIdle)
	}, jstest.Timeout, 5*time.Millisecond, "only the cause is kept")
	refusedWith(t, sendLive(t, q.nc, idle, `{"text":"x"}`, 0), "503", `"code":"idle"`)
	open(t, q.nc, `{"open":{}}`)
}

// Memory that a session holds is released with it.
func TestLiveSessionsReleaseMemory(t *testing.T) {
	t.Parallel()
	memory, err := rewardmodel.NewMemory(1<<20, nil)
	require.NoError(t, err)
	cfg, scorer := liveConfig(t, testConfig(t), hashes{})
	cfg.Service.Memory = memory
	q := startQueue(t, cfg, scorer)
	for i := range 20 {
		subject := open(t, q.nc, `{"open":{}}`)
		text := fmt.Sprintf(`{"text":%q}`, strings.Repeat("A sentence. ", 1000))
		require.Empty(t, sendLive(t, q.nc, subject, text, 1).Header.Get(micro.ErrorHeader))
		if i%2 == 0 {
			lines(t, sendLive(t, q.nc, subject, `{"close":{}}`, 2))
		} else {
			refusedWith(t, sendLive(t, q.nc, subject, `{`, 2), "400", "")
		}
	}
	whole := memory.Open() // everything that one request may hold is free again
	defer whole.Close()
	require.Eventually(t, func() bool { return whole.Grow(1<<20-1<<18) == nil }, jstest.Timeout, 5*time.Millisecond)
}

// The prompt of a session is charged until the session ends.
func TestLiveSessionsHoldThePrompt(t *testing.T) {
	t.Parallel()
	const limit, prompt = 1 << 20, 1 << 18
	memory, err := rewardmodel.NewMemory(limit, nil)
	require.NoError(t, err)
	cfg, scorer := liveConfig(t, testConfig(t), hashes{})
	cfg.Service.Memory = memory
	q := startQueue(t, cfg, scorer)
	rest := memory.Open()
	defer rest.Close()
	fits := func() bool { // in addition to a session with the prompt
		err := rest.Grow(limit - prompt)
		rest.ShrinkTo(0)
		return err == nil
	}
	subject := open(t, q.nc, fmt.Sprintf(`{"open":{"prompt":%q}}`, strings.Repeat("a", prompt)))
	require.Never(t, fits, 100*time.Millisecond, time.Millisecond)
	lines(t, sendLive(t, q.nc, subject, `{"close":{}}`, 0))
	require.Eventually(t, fits, jstest.Timeout, time.Millisecond)
	refusedWith(t, sendLive(t, q.nc, SubjectLive, fmt.Sprintf(`{"open":{"model":"another","prompt":%q}}`, strings.Repeat("a", prompt)), 0), "404", "")
	require.Eventually(t, fits, jstest.Timeout, time.Millisecond)
}

// On a server whose permissions are those of an earlier release, everything else works.
func TestLiveSessionsWithoutPermission(t *testing.T) {
	t.Parallel()
	hub := jstest.Server(t, &server.Options{
		Users: []*server.User{{Username: "assay", Password: "x", Permissions: &server.Permissions{
			Subscribe: &server.SubjectPermission{Deny: []string{SubjectLive, SubjectLive + ".>"}},
		}}, {Username: "app", Password: "x"}},
	})
	cfg, _ := liveConfig(t, testConfig(t), hashes{})
	cfg.Conn = ConnConfig{URL: strings.Replace(hub.ClientURL(), "nats://", "nats://assay:x@", 1)}
	startQueue(t, cfg, scorerFunc(good))
	app, err := nats.Connect(hub.ClientURL(), nats.UserInfo("app", "x"))
	require.NoError(t, err)
	t.Cleanup(app.Close)
	_, err = NewClient(app).Score(t.Context(), request("x"))
	require.NoError(t, err)
	_, err = app.Request(SubjectLive, []byte(`{"open":{}}`), jstest.Timeout)
	require.ErrorIs(t, err, nats.ErrNoResponders)
}

// More sessions than MaxRequests work at the same time, and do not take the place of
// score requests.
func TestLiveSessionsAreConcurrent(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	cfg := testConfig(t)
	cfg.Service.MaxRequests = 2
	cfg, _ = liveConfig(t, cfg, hashes{gate})
	q := startQueue(t, cfg, scorerFunc(good))
	var wait sync.WaitGroup
	for range 20 {
		subject := open(t, q.nc, `{"open":{}}`)
		wait.Go(func() {
			sendLive(t, q.nc, subject, `{"text":"One.\n\nTwo.\n\n"}`, 1)
			events := lines(t, sendLive(t, q.nc, subject, `{"close":{}}`, 2))
			if len(events) == 0 || events[len(events)-1]["result"] == nil {
				t.Error("no result")
			}
		})
	}
	_, err := NewClient(q.nc).Score(t.Context(), request("x"))
	require.NoError(t, err)
	close(gate)
	wait.Wait()
}

// A session belongs to the replica that opened it. When that stops, the next message of
// the session finds no responders.
func TestLiveSessionsOfReplicas(t *testing.T) {
	t.Parallel()
	cfg, scorer := liveConfig(t, testConfig(t), hashes{})
	one := startQueue(t, cfg, scorer)
	other, scorer := liveConfig(t, testConfig(t), hashes{})
	two := replica(t, one, other)
	require.NoError(t, two.Start(t.Context(), scorer))

	subjects := map[bool]string{} // of a session of each replica, by whether it is one's
	require.Eventually(t, func() bool {
		subject := open(t, one.nc, `{"open":{}}`)
		subjects[strings.HasPrefix(subject, one.service.live.prefix)] = subject
		return len(subjects) == 2
	}, jstest.Timeout, time.Millisecond)
	for _, subject := range subjects {
		sendLive(t, one.nc, subject, `{"text":"One. "}`, 1)
	}
	require.NoError(t, two.Drain(t.Context()))
	require.Eventually(t, func() bool {
		_, err := one.nc.Request(subjects[false], []byte(`{"close":{}}`), jstest.Timeout)
		return err == nats.ErrNoResponders //nolint:errorlint // the documented error itself
	}, jstest.Timeout, time.Millisecond)
	events := lines(t, sendLive(t, one.nc, subjects[true], `{"close":{}}`, 2))
	require.Contains(t, events[len(events)-1], "result")
}

// Drain completes the message in flight, and ends the session.
func TestDrainEndsLiveSessions(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	cfg, scorer := liveConfig(t, testConfig(t), hashes{gate})
	q := startQueue(t, cfg, scorer)
	subject := open(t, q.nc, `{"open":{}}`)
	sendLive(t, q.nc, subject, `{"text":"Hello."}`, 1)
	closed := make(chan *nats.Msg, 1)
	go func() {
		reply, err := q.nc.Request(subject, []byte(`{"close":{}}`), jstest.Timeout)
		if err != nil {
			t.Error(err)
		}
		closed <- reply
	}()
	require.Eventually(t, func() bool {
		q.service.mu.Lock()
		defer q.service.mu.Unlock()
		return q.service.feeding == 1
	}, jstest.Timeout, time.Millisecond)
	drained := make(chan error, 1)
	go func() { drained <- q.Drain(t.Context()) }()
	require.Eventually(t, func() bool { return q.service.micro.Stopped() }, jstest.Timeout, time.Millisecond)
	close(gate)
	require.NoError(t, <-drained)
	events := lines(t, <-closed)
	require.Contains(t, events[len(events)-1], "result")
	require.Empty(t, q.service.live.sessions)
}
