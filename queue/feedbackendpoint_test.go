package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"assay/queue/internal/jstest"
	"assay/queue/labels"
	"assay/queue/labels/labelstest"
	"assay/rewardmodel/feedback"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// ask sends feedback as any client does.
func ask(t testing.TB, nc *nats.Conn, contentType, body string) *nats.Msg {
	t.Helper()
	msg := &nats.Msg{Subject: labels.SubjectFeedback, Data: []byte(body), Header: nats.Header{}}
	if contentType != "" {
		msg.Header.Set("Content-Type", contentType)
	}
	reply, err := nc.RequestMsg(msg, jstest.Timeout)
	require.NoError(t, err)
	return reply
}

func TestFeedbackOverNATS(t *testing.T) {
	t.Parallel()
	q := startQueue(t, testConfig(t), scorerFunc(good))
	const a, b = `{"id":"a","label":"violation","response":"You fool."}`, `{"id":"b","label":"compliant","instances":["Of course."]}`
	for _, tc := range []struct{ name, contentType, body, says string }{
		{"one object", "", `{"batch_id":"1","items":[` + a + `,` + b + `]}`, `{"accepted":2,"duplicates":0,"rejected":[]}`},
		{"again, lines", "", a + "\n\n" + b + "\n", `{"accepted":0,"duplicates":2,"rejected":[]}`},
		{"lines by type", "application/x-ndjson; charset=utf-8", b, `{"accepted":0,"duplicates":1,"rejected":[]}`},
		{"a bad item", "application/json", `{"items":[{"label":"violation"},` + a + `]}`, `{"accepted":0,"duplicates":1,"rejected":[{"index":0,"id":"","code":"invalid"`},
		{"a bad line", "", a + "\n{", `"duplicates":1,"rejected":[{"index":1`},
		{"a line with labels only", "", `{"labels":{"rudeness":"violation"},"response":"You fool."}` + "\n" + a, `"duplicates":1,"rejected":[{"index":0`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			reply := ask(t, q.nc, tc.contentType, tc.body)
			require.Empty(t, reply.Header.Get("Nats-Service-Error"))
			require.Contains(t, string(reply.Data), tc.says)
		})
	}
	for _, tc := range []struct{ name, contentType, body, code, says string }{
		{"no JSON", "", `{"items":`, "400", `"code":"invalid"`},
		{"nothing", "", ``, "400", `"code":"invalid"`},
		{"no items", "", `{"items":[]}`, "422", `"field":"items"`},
		{"an item by type", "application/json", a, "400", `"field":"items"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			reply := ask(t, q.nc, tc.contentType, tc.body)
			require.Equal(t, tc.code, reply.Header.Get("Nats-Service-Error-Code"))
			require.Contains(t, string(reply.Data), tc.says)
		})
	}

	// Without a reply subject.
	require.NoError(t, q.nc.Publish(labels.SubjectFeedback, []byte(`{"id":"c","label":"violation","response":"You fool."}`)))
	require.NoError(t, q.nc.Publish(labels.SubjectFeedback, []byte(`{"id":"d"}`)))
	require.Eventually(t, func() bool { return q.Labels().Index().Stats(feedback.Split{}, 0).Records == 3 }, jstest.Timeout, time.Millisecond)
	require.Eventually(t, func() bool {
		return testutil.ToFloat64(q.metrics.batches.WithLabelValues("200")) == 8
	}, jstest.Timeout, time.Millisecond)
	for _, tc := range []struct {
		outcome, label string
		items          float64
	}{
		{"accepted", "violation", 2}, {"accepted", "compliant", 1}, {"duplicate", "violation", 4}, {"duplicate", "compliant", 2},
		{"rejected", "", 4}, {"failed", "", 0}, {"failed", "violation", 0},
	} {
		require.Equal(t, tc.items, testutil.ToFloat64(q.metrics.feedback.WithLabelValues(tc.outcome, tc.label)), tc)
	}
	info, err := q.nc.Request("$SRV.INFO.assay", nil, jstest.Timeout)
	require.NoError(t, err)
	require.Contains(t, string(info.Data), `"`+labels.SubjectFeedback+`"`)
}

type appenderFunc func(context.Context, feedback.Batch, string) (feedback.Receipt, error)

func (f appenderFunc) Append(ctx context.Context, b feedback.Batch, by string) (feedback.Receipt, error) {
	return f(ctx, b, by)
}

func TestFeedbackErrorsOverNATS(t *testing.T) {
	t.Parallel()
	q := openQueue(t, testConfig(t))
	s, err := startService(q.nc, scorerFunc(good), appenderFunc(func(ctx context.Context, b feedback.Batch, _ string) (feedback.Receipt, error) {
		switch b.Items[0].ID {
		case "full":
			return feedback.Receipt{}, fmt.Errorf("%w: more bytes", feedback.ErrStoreFull)
		case "unavailable":
			return feedback.Receipt{}, fmt.Errorf("%w: %w", feedback.ErrUnavailable, context.DeadlineExceeded)
		case "slow":
			<-ctx.Done()
			return feedback.Receipt{}, ctx.Err()
		}
		return feedback.Receipt{}, errors.New("secret path")
	}), ServiceConfig{Timeout: 50 * time.Millisecond, Feedback: feedback.Limits{MaxItems: 1}}, zerolog.Nop(), q.metrics)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.drain(t.Context())) }()
	for _, tc := range []struct{ id, code, retry, says string }{
		{"full", "503", "60", `"code":"store_full"`},
		{"unavailable", "503", "1", `"code":"unavailable"`},
		{"slow", "504", "", `"code":"deadline_exceeded"`},
		{"other", "500", "", `"code":"internal"`},
	} {
		reply := ask(t, q.nc, "", fmt.Sprintf(`{"items":[{"id":%q,"label":"violation","response":"x"}]}`, tc.id))
		require.Equal(t, tc.code, reply.Header.Get("Nats-Service-Error-Code"))
		require.Equal(t, tc.retry, reply.Header.Get("Retry-After"))
		require.Contains(t, string(reply.Data), tc.says)
		require.NotContains(t, string(reply.Data), "secret")
	}
	reply := ask(t, q.nc, "", `{"items":[{},{}]}`)
	require.Equal(t, "413", reply.Header.Get("Nats-Service-Error-Code"))
}

func TestReadyNeedsTheFeedback(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Streams.KeepScored = time.Hour
	q := startQueue(t, cfg, scorerFunc(good))
	for _, name := range []string{labels.StreamScored, labels.StreamFeedback} {
		require.NoError(t, q.Ready(t.Context()))
		stream := jstest.StreamConfig(t, q.js, name)
		require.NoError(t, q.js.DeleteStream(t.Context(), name))
		err := q.Ready(t.Context())
		require.ErrorIs(t, err, ErrNotReady)
		require.ErrorContains(t, err, name)
		_, err = q.js.CreateStream(t.Context(), stream)
		require.NoError(t, err)
	}
}

func TestIncompatibleFeedbackStreams(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*jetstream.StreamConfig)
		says   string
	}{
		"all versions": {func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = -1 }, "must keep 1"},
		"memory":       {func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, "must be file"},
		"subjects":     {func(c *jetstream.StreamConfig) { c.Subjects = []string{"assay.v1.feedback.item.>"} }, "must include assay.v1.feedback.>"},
		"age":          {func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, "by age"},
		"discard":      {func(c *jetstream.StreamConfig) { c.Discard, c.MaxBytes = jetstream.DiscardOld, 1<<20 }, "must discard new"},
		"no deleting":  {func(c *jetstream.StreamConfig) { c.DenyDelete = true }, "erased"},
	} {
		t.Run(name, func(t *testing.T) {
			nc, js := jstest.Connect(t, &server.Options{})
			cfg := StreamsConfig{}.withDefaults().feedbackStreams()[0]
			tc.change(&cfg)
			_, err := js.CreateStream(t.Context(), cfg)
			require.NoError(t, err)
			before := jstest.StreamConfig(t, js, labels.StreamFeedback)
			err = ensure(t, nc, js, StreamsConfig{})
			require.ErrorIs(t, err, ErrIncompatibleStream)
			require.ErrorContains(t, err, tc.says)
			require.Equal(t, before, jstest.StreamConfig(t, js, labels.StreamFeedback))
		})
	}
}

// Every process is killed at random moments while feedback arrives over NATS.
// Everything that a receipt counts is stored, and resending stores the rest.
func TestKillNineWhileFeedbackArrives(t *testing.T) {
	t.Parallel()
	const kills, size = 5, 40
	dir := t.TempDir()
	body := func(first int) []byte {
		var items []json.RawMessage
		for _, b := range labelstest.Some(first, size) {
			items = append(items, json.RawMessage(fmt.Sprintf(`{"id":%q,"label":%q,"response":%q}`, b.ID, b.Label, b.Response)))
		}
		data, err := json.Marshal(map[string]any{"items": items})
		require.NoError(t, err)
		return data
	}
	send := func(p *process, first int) (receipt feedback.Receipt, ok bool) {
		ctx, cancel := context.WithTimeout(t.Context(), jstest.Timeout)
		defer cancel()
		reply, err := p.nc.RequestWithContext(ctx, labels.SubjectFeedback, body(first))
		if err != nil {
			return receipt, false
		}
		require.Empty(t, reply.Header.Get("Nats-Service-Error"), string(reply.Data))
		require.NoError(t, json.Unmarshal(reply.Data, &receipt))
		require.Equal(t, size, receipt.Accepted+receipt.Duplicates)
		return receipt, true
	}
	next, answered := 0, 0
	for range kills {
		p := serving(t, dir)
		time.AfterFunc(time.Duration(rand.IntN(200))*time.Millisecond, func() { _ = p.cmd.Process.Kill() })
		for {
			if _, ok := send(p, next); !ok {
				break
			}
			answered = next + size
			next += size / 2 // overlapping
		}
		require.Error(t, p.cmd.Wait(), "killed")
		p.nc.Close()
	}

	p := serving(t, dir)
	duplicates, accepted := 0, 0
	for first := 0; first < next+size; first += size {
		receipt, ok := send(p, first)
		require.True(t, ok)
		if first+size <= answered {
			require.Zero(t, receipt.Accepted, "of what was acknowledged")
		}
		duplicates += receipt.Duplicates
		accepted += receipt.Accepted
	}
	stream, err := p.js.Stream(t.Context(), labels.StreamFeedback)
	require.NoError(t, err)
	require.EqualValues(t, duplicates+accepted, stream.CachedInfo().State.Msgs)
	p.nc.Close()
	require.NoError(t, p.in.Close())
	require.NoError(t, p.cmd.Wait())
}

// serving is a process that already replies.
func serving(t *testing.T, dir string) *process {
	t.Helper()
	p := spawn(t, dir)
	require.Eventually(t, func() bool {
		_, err := p.nc.Request("$SRV.PING.assay", nil, time.Second)
		return err == nil
	}, jstest.Timeout, 5*time.Millisecond)
	return p
}

func FuzzItemALine(f *testing.F) {
	f.Add(`{"items":[]}`)
	f.Add(`{"id":"a"}` + "\n{}")
	f.Fuzz(func(t *testing.T, body string) {
		if isNDJSON("", []byte(body)) {
			_, err := feedback.Decode([]byte(body), feedback.Limits{})
			require.Error(t, err, "it is no object with items")
		}
	})
}
