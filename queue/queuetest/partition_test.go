package queuetest_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/queue/embedded"
	"assay/queue/queuetest"
	"assay/rewardmodel"
)

// gatedScorer returns once it is open.
type gatedScorer struct {
	echo
	open chan struct{}
}

func (s *gatedScorer) Score(ctx context.Context, req rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	<-s.open
	return s.echo.Score(ctx, req)
}

// A network that drops packets closes no connection: the client detects it by itself.
// Messages that it cannot send then fail, and do not arrive later.
func TestConnectionThroughANetworkThatSwallows(t *testing.T) {
	q := queuetest.Open(t, queue.Config{})
	p := queuetest.StartProxy(t, strings.TrimPrefix(q.URL(), "nats://"))
	nc, err := queue.Connect(t.Context(), queue.ConnConfig{URL: "nats://" + p.Addr()}, zerolog.Nop())
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	lost, back := nc.StatusChanged(nats.RECONNECTING), nc.StatusChanged(nats.CONNECTED)

	p.Set(queuetest.Swallowing)
	began := time.Now()
	select {
	case <-lost:
	case <-time.After(electionTimeout):
		t.Fatal("the connection did not notice")
	}
	require.Less(t, time.Since(began), 20*time.Second, "6 seconds, on a machine that is not busy")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err = js.Publish(ctx, queue.SubjectRewards+".late", []byte(`{}`))
	require.ErrorIs(t, err, nats.ErrReconnectBufExceeded)

	p.Set(queuetest.Passing)
	select {
	case <-back:
	case <-time.After(electionTimeout):
		t.Fatal("the connection did not come back")
	}
	_, err = js.Publish(t.Context(), queue.SubjectRewards+".now", []byte(`{}`))
	require.NoError(t, err)
	s, err := js.Stream(t.Context(), queue.StreamRewards)
	require.NoError(t, err)
	require.EqualValues(t, 1, s.CachedInfo().State.Msgs)
}

// An isolated node serves no stream, and clients that are connected to other nodes
// continue; later it rejoins.
func TestPartitionOfACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for elections, which takes half a minute")
	}
	c := queuetest.StartPartitionable(t, 3)
	gate := c.Gate()
	q := queuetest.Open(t, queue.Config{Conn: queue.ConnConfig{URL: gate.URL()}, Streams: queue.StreamsConfig{Replicas: 3}})
	require.NoError(t, q.Start(t.Context(), echo{}))
	for _, network := range []queuetest.Network{queuetest.Refusing, queuetest.Swallowing} {
		leader := c.Leader(queue.StreamResponses)
		gate.Set(queuetest.Refusing, leader) // so that it is connected to another
		c.Isolate(leader, network)
		require.Eventually(t, func() bool {
			js, err := jetstream.New(q.Conn())
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err = js.Publish(ctx, queue.SubjectResponses+".x", []byte(`{"response":"Hello."}`))
			return err == nil
		}, electionTimeout, 50*time.Millisecond)
		c.Isolate(leader, queuetest.Passing)
		gate.Set(queuetest.Passing)
		c.Healthy(queue.StreamResponses)
		c.Healthy(queue.StreamRewards)
	}
}

// A replica whose server is cut off from the others connects to another one.
func TestReplicaLeavesAnIsolatedServer(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until a server has no leader, which takes half a minute")
	}
	c := queuetest.StartPartitionable(t, 3)
	gate := c.Gate()
	q := queuetest.Open(t, queue.Config{Conn: queue.ConnConfig{URL: gate.URL()}, Streams: queue.StreamsConfig{Replicas: 3}})
	for _, network := range []queuetest.Network{queuetest.Refusing, queuetest.Swallowing} {
		var isolated int
		require.Eventually(t, func() bool {
			isolated = slices.IndexFunc([]int{0, 1, 2}, gate.Connected)
			return isolated >= 0 && q.StreamsReady(t.Context()) == nil
		}, electionTimeout, 50*time.Millisecond)
		c.Isolate(isolated, network)
		require.Eventually(t, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			return !gate.Connected(isolated) && q.StreamsReady(ctx) == nil
		}, electionTimeout, 50*time.Millisecond)
		c.Isolate(isolated, queuetest.Passing)
		c.Healthy(queue.StreamResponses)
	}
}

// A backlog on a cluster, where each pull gets as many responses as it asks for,
// is delivered once, and not again after AckWait.
func TestBacklogOfACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster, which takes a quarter of a minute")
	}
	const responses = 1000
	c := queuetest.StartCluster(t, 3)
	reg := prometheus.NewRegistry()
	q, err := queue.Open(t.Context(), queue.Config{
		Conn: queue.ConnConfig{URL: c.URL()}, Streams: queue.StreamsConfig{Replicas: 3},
		Worker: queue.WorkerConfig{AckWait: time.Hour},
	}, zerolog.Nop(), reg)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close(context.Background())) }()
	js, err := jetstream.New(q.Conn())
	require.NoError(t, err)
	for range responses {
		_, err := js.PublishAsync(queue.SubjectResponses+".x", []byte(`{"response":"Hello."}`))
		require.NoError(t, err)
	}
	<-js.PublishAsyncComplete()
	require.NoError(t, q.Start(t.Context(), echo{}))
	stored := func(name string) uint64 {
		s, err := js.Stream(t.Context(), name)
		if err != nil {
			return 0
		}
		return s.CachedInfo().State.LastSeq
	}
	require.Eventually(t, func() bool { return stored(queue.StreamRewards) == responses }, electionTimeout, 50*time.Millisecond)
}

// A metric shows how full the response stream is before publications are rejected.
func TestFillOfTheStreamIsMeasured(t *testing.T) {
	reg := prometheus.NewRegistry()
	q, err := queue.Open(t.Context(), queue.Config{
		Server:  embedded.Config{Listen: "127.0.0.1:0", DataDir: t.TempDir()},
		Streams: queue.StreamsConfig{ResponsesMaxBytes: 1 << 20},
	}, zerolog.Nop(), reg)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close(context.Background())) }()
	js, err := jetstream.New(queuetest.Connect(t, q))
	require.NoError(t, err)
	scorer := &gatedScorer{open: make(chan struct{})}
	require.NoError(t, q.Start(t.Context(), scorer))
	for range 10 {
		_, err := js.Publish(t.Context(), queue.SubjectResponses+".x", []byte(`{"response":"Hello."}`))
		require.NoError(t, err)
	}
	gauge := func(name string) float64 {
		families, err := reg.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == name {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		return -1
	}
	require.Eventually(t, func() bool { return gauge("assay_nats_responses_messages") == 10 }, electionTimeout, 50*time.Millisecond)
	require.Greater(t, gauge("assay_nats_responses_bytes"), 200.0)
	require.EqualValues(t, 1<<20, gauge("assay_nats_responses_max_bytes"))
	require.Greater(t, gauge("assay_nats_responses_oldest_seconds"), 0.0)
	close(scorer.open)
	require.Eventually(t, func() bool { return gauge("assay_nats_responses_messages") == 0 }, electionTimeout, 50*time.Millisecond)
	require.Zero(t, gauge("assay_nats_responses_oldest_seconds"))
}
