package queue

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"assay/queue/internal/jstest"
	"assay/queue/labels"
	"assay/rewardmodel"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func withMemory(t *testing.T, limit int64) (Config, *rewardmodel.Memory) {
	t.Helper()
	m, err := rewardmodel.NewMemory(limit, nil)
	require.NoError(t, err)
	cfg := testConfig(t)
	cfg.Worker.Memory, cfg.Service.Memory = m, m
	return cfg, m
}

// occupy reserves all memory until the returned function is called.
func occupy(t *testing.T, m *rewardmodel.Memory, limit int64) (release func()) {
	t.Helper()
	large := m.Open()
	require.NoError(t, large.Grow(limit/4*3))
	holds := []*rewardmodel.Reservation{large}
	for range limit / 4 / (4 << 20) {
		small := m.Open()
		require.NoError(t, small.Grow(4<<20))
		holds = append(holds, small)
	}
	return func() {
		for _, h := range holds {
			h.Close()
		}
	}
}

// Requests beyond the shared memory get 503, and are served once there is some.
func TestRequestsShareMemory(t *testing.T) {
	t.Parallel()
	const limit = 256 << 20
	cfg, m := withMemory(t, limit)
	q := openQueue(t, cfg)
	service, err := startService(q.nc, scorerFunc(good), q.Labels(), cfg.Service, q.log, q.metrics)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, service.drain(context.Background())) })
	release := occupy(t, m, limit)
	ask := func(subject, body string) string {
		reply, err := q.nc.RequestMsg(&nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{}}, jstest.Timeout)
		require.NoError(t, err)
		if code := reply.Header.Get("Nats-Service-Error-Code"); code != "" {
			require.NotEmpty(t, reply.Header.Get("Retry-After"))
			return code + " " + string(reply.Data)
		}
		return "200"
	}
	score := fmt.Sprintf(`{"responses":[%s]}`, item("x"))
	batch := `{"items":[{"id":"a","label":"violation","response":"x"}]}`
	for _, reply := range []string{ask(SubjectScore, score), ask(labels.SubjectFeedback, batch)} {
		require.Contains(t, reply, "503")
		require.Contains(t, reply, "request memory")
	}
	release()
	require.Equal(t, "200", ask(SubjectScore, score))
	require.Equal(t, "200", ask(labels.SubjectFeedback, batch))
}

// While the shared memory is in use, responses stay in the stream, none is
// negatively acknowledged, and all are scored afterwards.
func TestPullWaitsForMemory(t *testing.T) {
	t.Parallel()
	const limit = 256 << 20
	cfg, m := withMemory(t, limit)
	release := occupy(t, m, limit)
	var scored atomic.Int64
	q := startQueue(t, cfg, scorerFunc(func(ctx context.Context, it rewardmodel.Item) (rewardmodel.Result, error) {
		scored.Add(1)
		return good(ctx, it)
	}))
	for i := range 20 {
		publish(t, q, "x", fmt.Sprint(i), item("Hello."))
	}
	require.Eventually(t, func() bool { return q.worker.untilResume() > 0 }, jstest.Timeout, time.Millisecond, "a pull was refused")
	require.Zero(t, scored.Load())
	require.Equal(t, 20, jstest.Count(q.js, StreamResponses))
	release()
	awaitEmpty(t, q)
	require.EqualValues(t, 20, scored.Load())
	require.Zero(t, testutil.ToFloat64(q.metrics.messages.WithLabelValues(string(outcomeOverloaded))))
}

// hungry is a scorer that reserves memory, like that of a model.
type hungry struct {
	scorerFunc
	bytes int64
}

func (h hungry) Score(ctx context.Context, req rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	if err := req.Memory.Grow(h.bytes); err != nil {
		return rewardmodel.ScoreResponse{}, err
	}
	return h.scorerFunc.Score(ctx, req)
}

// The reservation of a waiting pull does not keep an idle process from accepting a large response.
func TestIdlePullLeavesRoomForLargeResponses(t *testing.T) {
	t.Parallel()
	const limit = 256 << 20
	cfg, _ := withMemory(t, limit)
	q := startQueue(t, cfg, hungry{good, limit/4*3 - 1<<20})
	publish(t, q, "x", "1", item("Hello."))
	awaitEmpty(t, q)
	require.Equal(t, 1, jstest.Count(q.js, StreamRewards))
	require.Zero(t, testutil.ToFloat64(q.metrics.messages.WithLabelValues(string(outcomeOverloaded))))
}

// A response with a stored reward but no acknowledgement is not dead-lettered by a process with less memory.
func TestRewardedResponseThatNoLongerFits(t *testing.T) {
	t.Parallel()
	cfg, _ := withMemory(t, 16<<20)
	cfg.Worker.MaxInFlight = 4 // so that a pull fits
	cfg.Worker.AckWait = time.Second
	q := openQueue(t, cfg)
	q.cfg.Worker.Memory = nil
	crashWith(t, q, "1", `{"instances":[""`+strings.Repeat(`,""`, 400_000)+`]}`)
	q.cfg.Worker.Memory = cfg.Worker.Memory
	require.NoError(t, q.Start(t.Context(), scorerFunc(good)))
	awaitEmpty(t, q)
	require.Equal(t, 1, jstest.Count(q.js, StreamRewards))
	require.Zero(t, jstest.Count(q.js, StreamDead))
}

// A message id that is too long to echo is not echoed.
func TestLongMessageID(t *testing.T) {
	t.Parallel()
	d := &delivery{msg: fakeMsg{header: nats.Header{nats.MsgIdHdr: {strings.Repeat("i", 1000)}}}, meta: metaOf(7)}
	require.Equal(t, "seq-7", d.id(""))
}

type fakeMsg struct {
	jetstream.Msg
	header nats.Header
}

func (m fakeMsg) Headers() nats.Header { return m.header }

func metaOf(sequence uint64) *jetstream.MsgMetadata {
	return &jetstream.MsgMetadata{Sequence: jetstream.SequencePair{Stream: sequence}}
}
