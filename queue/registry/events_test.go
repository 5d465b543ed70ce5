package registry_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/queue/embedded"
	"assay/queue/internal/jstest"
	"assay/queue/queuetest"
	"assay/queue/registry"
	"assay/rewardmodel/retrain"
)

func reasons(events []retrain.Event) (all []string) {
	for _, e := range events {
		all = append(all, e.Reason)
	}
	return all
}

// take returns the next n events after a sequence.
func take(t testing.TB, r *registry.Registry, after uint64, n int) (events []retrain.Event) {
	t.Helper()
	for e, err := range r.Events(jstest.Context(t), after) {
		require.NoError(t, err)
		if events = append(events, e); len(events) == n {
			break
		}
	}
	require.Len(t, events, n)
	return events
}

func TestEvents(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	q := queuetest.Open(t, queuetest.Config(t))
	r := openRegistry(t, q)
	last := func() uint64 {
		sequence, err := r.LastEvent(ctx)
		require.NoError(t, err)
		return sequence
	}
	require.Zero(t, last())
	require.Error(t, r.Publish(ctx, retrain.Event{}))
	require.Error(t, r.Publish(ctx, retrain.Event{Kind: "a.*"}))

	full := retrain.Event{Kind: retrain.EventPromoted, Time: time.Unix(7, 0).UTC(), Replica: "a", Version: "v1", Training: "t1",
		By: "gate", Reason: "better", Details: []byte(`{"auroc":0.8}`), Key: "promoted/v1"}
	require.NoError(t, r.Publish(ctx, full))
	require.NoError(t, r.Publish(ctx, full), "dropped")
	for i := range 4 {
		require.NoError(t, r.Publish(ctx, retrain.Event{Kind: retrain.EventTrained, Reason: fmt.Sprint(i)}))
		require.NoError(t, r.Publish(ctx, retrain.Event{Kind: retrain.EventTrained, Reason: fmt.Sprint(i)}), "without a key, another event")
	}
	events := take(t, r, 0, 9)
	full.Sequence = 1
	require.Equal(t, full, events[0])
	require.WithinDuration(t, time.Now(), events[1].Time, jstest.Timeout)
	require.Equal(t, []string{"better", "0", "0", "1", "1", "2", "2", "3", "3"}, reasons(events))
	require.Equal(t, "assay.v1.events.model.promoted", jstest.Messages(t, jstest.JetStream(t, q.Conn()), registry.StreamEvents)[0].Subject)
	require.Equal(t, "v1", jstest.Messages(t, jstest.JetStream(t, q.Conn()), registry.StreamEvents)[0].Header.Get(queue.HeaderModelVersion))
	require.Equal(t, []string{"3", "3"}, reasons(take(t, r, events[6].Sequence, 2)), "after a sequence")
	require.EqualValues(t, 9, last())

	// A reader that was away for longer than the retention of events continues with the
	// oldest one, and so does a reader of a deleted stream.
	s, err := jstest.JetStream(t, q.Conn()).Stream(ctx, registry.StreamEvents)
	require.NoError(t, err)
	require.NoError(t, s.DeleteMsg(ctx, 9))
	for seq := uint64(1); seq < 5; seq++ {
		require.NoError(t, s.DeleteMsg(ctx, seq))
	}
	require.EqualValues(t, 5, take(t, r, 2, 1)[0].Sequence)
	require.EqualValues(t, 5, take(t, r, 1000, 1)[0].Sequence)
	require.EqualValues(t, 8, last(), "the last one was deleted by hand")

	// An invalid event is an error, and does not end the iteration.
	_, err = jstest.JetStream(t, q.Conn()).Publish(ctx, registry.SubjectEvents+".other", []byte("no JSON"))
	require.NoError(t, err)
	require.NoError(t, r.Publish(ctx, full), "dropped")
	require.NoError(t, r.Publish(ctx, retrain.Event{Kind: retrain.EventTrained, Reason: "last"}))
	bad := 0
	for e, err := range r.Events(ctx, 0) {
		if err != nil {
			require.ErrorContains(t, err, "event 10")
			bad++
		}
		if e.Reason == "last" {
			break
		}
	}
	require.Equal(t, 1, bad)
}

func startServer(t *testing.T, cfg embedded.Config) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(cfg, nil, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Shutdown()) })
	return s
}

// Readers continue through the restart of a server.
func TestReadersSurviveARestart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(jstest.Context(t))
	defer cancel()
	dir := t.TempDir()
	srv := startServer(t, embedded.Config{Listen: "127.0.0.1:0", DataDir: dir})
	listen := strings.TrimPrefix(srv.URL(), "nats://")
	cfg := queuetest.Config(t)
	cfg.Conn.URL = srv.URL()
	r := openRegistry(t, queuetest.Open(t, cfg))

	events := make(chan retrain.Event)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range r.Events(ctx, 0) {
			select {
			case events <- e:
			case <-ctx.Done():
			}
		}
	}()
	watched := r.WatchCurrent(ctx)
	current := retrain.Current{}
	for i := range 3 {
		require.NoError(t, r.Publish(ctx, retrain.Event{Kind: retrain.EventTrained, Reason: fmt.Sprint(i)}))
		e := <-events
		require.Equal(t, fmt.Sprint(i), e.Reason)
		require.EqualValues(t, i+1, e.Sequence)
		current.Version = fmt.Sprint("v", i)
		var err error
		current, err = r.SetCurrent(ctx, current)
		require.NoError(t, err)
		require.Equal(t, current, <-watched)
		if i < 2 {
			require.NoError(t, srv.Shutdown())
			srv = startServer(t, embedded.Config{Listen: listen, DataDir: dir})
		}
	}
	cancel()
	<-done
	for range watched {
	}
}
