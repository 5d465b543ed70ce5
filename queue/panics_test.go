package queue

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/jstest"
	"assay/queue/labels"
	"assay/rewardmodel"
	"assay/rewardmodel/feedback"
)

// panickyMsg is a message whose handling panics outside the scorer.
type panickyMsg struct{ jetstream.Msg }

func (m panickyMsg) Data() []byte {
	if data := m.Msg.Data(); !strings.Contains(string(data), "poison") {
		return data
	}
	panic(strings.Repeat("decoding ", 1000))
}

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A panic of the decoder fails only its own delivery.
func TestPanicWhileAResponseIsDecoded(t *testing.T) {
	t.Parallel()
	q := openQueue(t, testConfig(t))
	var log lockedBuffer
	w, err := newWorker(q.nc, q.js, scorerFunc(good), q.cfg.Worker, zerolog.New(&log), q.metrics)
	require.NoError(t, err)
	publish(t, q, "x", "1", item("poison"))
	publish(t, q, "x", "2", item("text"))
	src, err := w.attach(t.Context(), false)
	require.NoError(t, err)
	batch, err := src.consumer.Fetch(2, jetstream.FetchMaxWait(jstest.Timeout))
	require.NoError(t, err)
	var outcomes []outcome
	for msg := range batch.Messages() {
		d, err := newDelivery(panickyMsg{msg}, &src)
		require.NoError(t, err)
		outcomes = append(outcomes, w.deliver(t.Context(), d))
	}
	require.Equal(t, []outcome{outcomeRetry, outcomeRewarded}, outcomes)
	require.Equal(t, 1.0, testutil.ToFloat64(q.metrics.panics.WithLabelValues("response")))
	require.Contains(t, log.String(), "panickyMsg.Data", "the stack")
	require.Less(t, len(log.String()), 20<<10, "truncated")
	require.NoError(t, w.drain(t.Context()))
}

// panicky is a scorer and store of labels that panics on a marked text.
func panicky(ctx context.Context, it rewardmodel.Item) (rewardmodel.Result, error) {
	if *it.Response == "poison" {
		panic("boom")
	}
	return good(ctx, it)
}

type panickyLabels struct{}

func (panickyLabels) Append(context.Context, feedback.Batch, string) (feedback.Receipt, error) {
	panic("boom")
}

// A request whose handling panics gets an error; later ones get their results.
func TestPanicInARequest(t *testing.T) {
	t.Parallel()
	q := openQueue(t, testConfig(t))
	s, err := startService(q.nc, scorerFunc(panicky), panickyLabels{}, ServiceConfig{}, zerolog.Nop(), q.metrics)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.drain(t.Context())) }()
	for _, tc := range []struct{ subject, body, code string }{
		{SubjectScore, `{"responses":[{"response":"poison"}]}`, "500"},
		{labels.SubjectFeedback, `{"items":[{"id":"a","response":"text","label":"violation"}]}`, "500"},
		{SubjectScore, `{"responses":[{"response":"text"}]}`, ""},
	} {
		reply, err := q.nc.Request(tc.subject, []byte(tc.body), jstest.Timeout)
		require.NoError(t, err)
		require.Equal(t, tc.code, reply.Header.Get("Nats-Service-Error-Code"), string(reply.Data))
		require.NotContains(t, string(reply.Data), "boom", "it is for the log")
	}
	require.Equal(t, 2.0, testutil.ToFloat64(q.metrics.panics.WithLabelValues("request")))
}
