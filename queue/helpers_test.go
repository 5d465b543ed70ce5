package queue

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"assay/queue/embedded"
	"assay/queue/internal/jstest"
	"assay/queue/labels"
	"assay/queue/registry"
	"assay/rewardmodel"
	"assay/rewardmodel/feedback"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		os.Exit(child(dir))
	}
	goleak.VerifyTestMain(m)
}

// scorerFunc scores one item; it replaces the model in all tests.
type scorerFunc func(context.Context, rewardmodel.Item) (rewardmodel.Result, error)

func (f scorerFunc) Score(ctx context.Context, req rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	answer := rewardmodel.ScoreResponse{Model: rewardmodel.ModelInfo{Name: "fake", Version: "v7", Numerics: "3/x"}, OffsetUnit: rewardmodel.OffsetCodepoint}
	for _, item := range req.Responses {
		result, err := f(ctx, item)
		if err != nil {
			return rewardmodel.ScoreResponse{}, err
		}
		answer.Results = append(answer.Results, result)
	}
	return answer, nil
}

// good is a scorer that never fails.
func good(_ context.Context, item rewardmodel.Item) (rewardmodel.Result, error) {
	return rewardmodel.Result{ID: item.ID, Reward: 0.75, Compliant: true, Violation: 0.2, Threshold: 0.5}, nil
}

// once makes f fail with err the first time that it sees an id.
func once(err error, f scorerFunc) scorerFunc {
	var mu sync.Mutex
	seen := map[string]bool{}
	return func(ctx context.Context, item rewardmodel.Item) (rewardmodel.Result, error) {
		mu.Lock()
		first := !seen[item.ID]
		seen[item.ID] = true
		mu.Unlock()
		if first {
			return rewardmodel.Result{}, err
		}
		return f(ctx, item)
	}
}

func testConfig(t testing.TB) Config {
	return Config{
		Server: embedded.Config{Listen: "127.0.0.1:0", DataDir: t.TempDir()},
		Worker: WorkerConfig{RetryBase: 5 * time.Millisecond, RetryMax: 100 * time.Millisecond},
	}
}

func openQueue(t testing.TB, cfg Config) *Queue {
	t.Helper()
	q, err := Open(t.Context(), cfg, zerolog.Nop(), prometheus.NewRegistry())
	require.NoError(t, err)
	t.Cleanup(func() { closeQueue(t, q) })
	return q
}

func closeQueue(t testing.TB, q *Queue) {
	ctx, cancel := context.WithTimeout(context.Background(), jstest.Timeout)
	defer cancel()
	require.NoError(t, q.Close(ctx))
}

func startQueue(t testing.TB, cfg Config, scorer Scorer) *Queue {
	t.Helper()
	q := openQueue(t, cfg)
	require.NoError(t, q.Start(t.Context(), scorer))
	return q
}

// publish stores a response and returns the acknowledgement.
func publish(t testing.TB, q *Queue, tail, id, body string) *jetstream.PubAck {
	t.Helper()
	msg := &nats.Msg{Subject: SubjectResponses + "." + tail, Data: []byte(body), Header: nats.Header{}}
	if id != "" {
		msg.Header.Set(jetstream.MsgIDHeader, id)
	}
	ctx, cancel := context.WithTimeout(t.Context(), jstest.Timeout)
	defer cancel()
	ack, err := q.js.PublishMsg(ctx, msg)
	require.NoError(t, err)
	return ack
}

func item(text string) string { return fmt.Sprintf(`{"response":%q}`, text) }

// awaitEmpty waits until no response is left.
func awaitEmpty(t testing.TB, q *Queue) {
	t.Helper()
	require.Eventually(t, func() bool { return jstest.Count(q.js, StreamResponses) == 0 }, jstest.Timeout, 5*time.Millisecond)
}

// since waits until d has gone by since start.
func since(t testing.TB, start time.Time, d time.Duration) {
	t.Helper()
	require.Eventually(t, func() bool { return time.Since(start) > d }, d+jstest.Timeout, 5*time.Millisecond)
}

// hooked is a JetStream that calls functions, unless they are nil.
type hooked struct {
	jetstream.JetStream
	stream   func(name string) // before Stream
	consumer func()            // before Consumer
	create   func() error      // before CreateOrUpdateConsumer, which fails with its error
}

func (h hooked) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	if h.stream != nil {
		h.stream(name)
	}
	return h.JetStream.Stream(ctx, name)
}

func (h hooked) Consumer(ctx context.Context, stream, name string) (jetstream.Consumer, error) {
	if h.consumer != nil {
		h.consumer()
	}
	return h.JetStream.Consumer(ctx, stream, name)
}

func (h hooked) CreateOrUpdateConsumer(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	if h.create != nil {
		if err := h.create(); err != nil {
			return nil, err
		}
	}
	return h.JetStream.CreateOrUpdateConsumer(ctx, stream, cfg)
}

// replica opens another process on the server of q.
func replica(t testing.TB, q *Queue, cfg Config) *Queue {
	cfg.Conn.URL = q.URL()
	return openQueue(t, cfg)
}

func openRegistry(t testing.TB, q *Queue) *registry.Registry {
	t.Helper()
	r, err := q.OpenRegistry(t.Context())
	require.NoError(t, err)
	return r
}

func recordSubject(id, rater feedback.Hash) string {
	return labels.SubjectFeedback + ".item." + id.String() + "." + rater.String()
}

func tombstoneSubject(id feedback.Hash) string {
	return labels.SubjectFeedback + ".erased." + id.String()
}
