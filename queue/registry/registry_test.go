package registry_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/queue/internal/js"
	"assay/queue/internal/jstest"
	"assay/queue/queuetest"
	"assay/queue/registry"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/retrain"
)

func openRegistry(t testing.TB, q *queue.Queue) *registry.Registry {
	t.Helper()
	r, err := q.OpenRegistry(t.Context())
	require.NoError(t, err)
	return r
}

func TestModels(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	r := openRegistry(t, queuetest.Open(t, queuetest.Config(t)))
	models, err := r.Models(ctx)
	require.NoError(t, err)
	require.Empty(t, models)
	_, err = r.Model(ctx, "v1")
	require.ErrorIs(t, err, retrain.ErrNoModel)
	require.ErrorContains(t, err, "v1")
	require.ErrorIs(t, r.Update(ctx, retrain.Model{Version: "v1"}), retrain.ErrNoModel)
	require.ErrorContains(t, r.Register(ctx, retrain.Model{}), "version")

	first := retrain.Model{Version: "v1", State: retrain.StatePromoted, Created: time.Unix(100, 5).UTC(), Threshold: 0.25,
		Data:  &retrain.Data{Bags: 300, Settings: map[string]any{"lr": 1e-5}},
		Files: map[string]retrain.File{"config.json": {Size: 3, SHA256: "ab"}}, Gate: []byte(`{"auroc":0.8}`)}
	require.NoError(t, r.Register(ctx, first))
	require.ErrorIs(t, r.Register(ctx, retrain.Model{Version: "v1"}), retrain.ErrExists)
	got, err := r.Model(ctx, "v1")
	require.NoError(t, err)
	require.Equal(t, first, got)

	odd := []string{"org/name@main", ".hidden.", "v1..2", "two words", "v=1", "ü", "1.0-rc_1"}
	for i, version := range odd {
		require.NoError(t, r.Register(ctx, retrain.Model{Version: version, Created: time.Unix(int64(200+i), 0)}), version)
		require.ErrorIs(t, r.Register(ctx, retrain.Model{Version: version}), retrain.ErrExists)
	}
	models, err = r.Models(ctx)
	require.NoError(t, err)
	require.Len(t, models, 1+len(odd))
	for i, version := range odd {
		require.Equal(t, version, models[len(odd)-1-i].Version, "the newest first")
	}

	first.State, first.Reason = retrain.StateRetired, "replaced"
	require.NoError(t, r.Update(ctx, first))
	got, err = r.Model(ctx, "v1")
	require.NoError(t, err)
	require.Equal(t, first, got)
}

func TestTokensOfVersionsDoNotCollide(t *testing.T) {
	seen := map[string]string{}
	for _, version := range []string{"a", "a.b", "a..b", "a.", ".a", "a/b", "a=2Fb", "a=b", "A", "a-b", "a_b", "ü", "ã¼", "a=2E", ".", ".."} {
		key := registry.Token(version)
		require.NotContains(t, seen, key, "%s and %s", version, seen[key])
		seen[key] = version
		require.Regexp(t, `^[-_=a-zA-Z0-9]+(\.[-_=a-zA-Z0-9]+)*$`, key)
	}
}

func TestCurrentAndStatusChangeByRevision(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	q := queuetest.Open(t, queuetest.Config(t))
	r := openRegistry(t, q)
	current, err := r.Current(ctx)
	require.NoError(t, err)
	require.Equal(t, retrain.Current{}, current)
	status, err := r.Status(ctx)
	require.NoError(t, err)
	require.Equal(t, retrain.Status{}, status)

	one, err := r.SetCurrent(ctx, retrain.Current{Version: "v1", By: "gate", Since: time.Unix(1, 0).UTC()})
	require.NoError(t, err)
	require.NotZero(t, one.Revision)
	current, err = r.Current(ctx)
	require.NoError(t, err)
	require.Equal(t, one, current)
	_, err = r.SetCurrent(ctx, retrain.Current{Version: "v2"})
	require.ErrorIs(t, err, retrain.ErrChanged, "another writer was first")
	next := one
	next.Version, next.Previous = "v2", []string{"v1"}
	two, err := r.SetCurrent(ctx, next)
	require.NoError(t, err)
	require.Greater(t, two.Revision, one.Revision)
	_, err = r.SetCurrent(ctx, next)
	require.ErrorIs(t, err, retrain.ErrChanged, "of an old revision")

	status, err = r.SetStatus(ctx, retrain.Status{Phase: retrain.PhaseTraining, Owner: "a", Progress: &retrain.Progress{Step: 3}})
	require.NoError(t, err)
	read, err := r.Status(ctx)
	require.NoError(t, err)
	require.Equal(t, status, read)

	// A key that an operator deleted does not exist, and can be set again.
	kv, err := jstest.JetStream(t, q.Conn()).KeyValue(ctx, registry.BucketState)
	require.NoError(t, err, "other clients see a key-value bucket")
	value, err := kv.Get(ctx, "current")
	require.NoError(t, err)
	require.Contains(t, string(value.Value()), `"v2"`)
	require.NoError(t, kv.Delete(ctx, "current"))
	current, err = r.Current(ctx)
	require.NoError(t, err)
	require.Equal(t, retrain.Current{}, current)
	_, err = r.SetCurrent(ctx, retrain.Current{Version: "v3"})
	require.NoError(t, err)
}

// Of replicas that change the same value, exactly one succeeds per revision.
func TestReplicasRace(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	srv := jstest.Server(t, &server.Options{})
	const replicas, rounds = 3, 40
	cfg := queuetest.Config(t)
	cfg.Conn.URL = srv.ClientURL()
	registries := make([]*registry.Registry, replicas)
	for i := range registries {
		registries[i] = openRegistry(t, queuetest.Open(t, cfg))
	}
	current, status := retrain.Current{}, retrain.Status{}
	for round := range rounds {
		var wg sync.WaitGroup
		var mu sync.Mutex
		won := map[string]int{}
		seen, running := current, status
		for i, r := range registries {
			wg.Go(func() {
				mine := seen
				mine.Version = fmt.Sprintf("v%d-%d", round, i)
				if set, err := r.SetCurrent(ctx, mine); err == nil {
					mu.Lock()
					won["current"]++
					current = set
					mu.Unlock()
				} else if !errors.Is(err, retrain.ErrChanged) {
					t.Error(err)
				}
			})
			wg.Go(func() {
				mine := running
				mine.Owner = fmt.Sprint(i)
				if set, err := r.SetStatus(ctx, mine); err == nil {
					mu.Lock()
					won["training"]++
					status = set
					mu.Unlock()
				} else if !errors.Is(err, retrain.ErrChanged) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.Equal(t, map[string]int{"current": 1, "training": 1}, won)
	}
	// Updates of a record are retried until each is applied.
	require.NoError(t, registries[0].Register(ctx, retrain.Model{Version: "v"}))
	var wg sync.WaitGroup
	for i, r := range registries {
		wg.Go(func() {
			for j := range 20 {
				if err := r.Update(ctx, retrain.Model{Version: "v", Reason: fmt.Sprint(i, j)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// A value whose acknowledgement was lost is recognized as stored.
func TestLostAcknowledgements(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	q := queuetest.Open(t, queuetest.Config(t))
	r := openRegistry(t, q)
	lossy := &lossyJetStream{JetStream: jstest.JetStream(t, q.Conn()), lose: 1}
	stream, err := lossy.Stream(ctx, registry.StreamState)
	require.NoError(t, err)
	r.ReplaceState(js.NewKeyValue(q.Conn(), lossy, stream, "", nil, zerolog.Nop()))
	one, err := r.SetStatus(ctx, retrain.Status{Owner: "a"})
	require.NoError(t, err)
	require.Zero(t, lossy.lose)
	lossy.lose = 2
	two, err := r.SetStatus(ctx, one)
	require.NoError(t, err)
	require.Equal(t, one.Revision+1, two.Revision, "stored once")

	// Without the server's duplicate window, the value itself shows it.
	lossy.lose, lossy.forget = 1, true
	three, err := r.SetStatus(ctx, two)
	require.NoError(t, err)
	require.Equal(t, two.Revision+1, three.Revision)
}

// lossyJetStream loses acknowledgements, or sends a retry without the message id.
type lossyJetStream struct {
	jetstream.JetStream
	lose   int
	forget bool
}

func (l *lossyJetStream) PublishMsg(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if l.forget && l.lose == 0 {
		fresh := *msg
		fresh.Header = nats.Header{jetstream.MsgIDHeader: {"another"}}
		return l.JetStream.PublishMsg(ctx, &fresh, opts...)
	}
	ack, err := l.JetStream.PublishMsg(ctx, msg, opts...)
	if err == nil && l.lose > 0 {
		l.lose--
		return nil, nats.ErrTimeout
	}
	return ack, err
}

func TestWatch(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(jstest.Context(t))
	r := openRegistry(t, queuetest.Open(t, queuetest.Config(t)))
	early := r.WatchCurrent(ctx)
	one, err := r.SetCurrent(ctx, retrain.Current{Version: "v1"})
	require.NoError(t, err)
	require.Equal(t, one, <-early)
	two, err := r.SetCurrent(ctx, retrain.Current{Version: "v2", Revision: one.Revision})
	require.NoError(t, err)
	require.Equal(t, two, <-early)
	late := r.WatchCurrent(ctx)
	require.Equal(t, two, <-late, "only the present one")

	cancel()
	for range early {
	}
	for range late {
	}
}

func TestReference(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	srv := jstest.Server(t, &server.Options{MaxPayload: 64 << 10})
	cfg := queuetest.Config(t)
	cfg.Conn.URL = srv.ClientURL()
	r := openRegistry(t, queuetest.Open(t, cfg))
	scores, err := r.Reference(ctx, "v1")
	require.NoError(t, err)
	require.Nil(t, scores)
	want := []float64{0, 0.25, 1, math.SmallestNonzeroFloat64}
	require.NoError(t, r.SetReference(ctx, "v1", want))
	require.NoError(t, r.SetReference(ctx, "v1", []float64{0.5}), "too late")
	scores, err = r.Reference(ctx, "v1")
	require.NoError(t, err)
	require.Equal(t, want, scores)

	err = r.SetReference(ctx, "v2", make([]float64, 8<<10))
	require.ErrorIs(t, err, nats.ErrMaxPayload)
	require.ErrorContains(t, err, "reference.v2")
	require.ErrorContains(t, err, "max_payload")
	err = r.Register(ctx, retrain.Model{Version: "v2", Reason: strings.Repeat("x", 64<<10)})
	require.ErrorIs(t, err, nats.ErrMaxPayload)
	require.ErrorIs(t, r.Publish(ctx, retrain.Event{Kind: retrain.EventTrained, Reason: strings.Repeat("x", 64<<10)}), nats.ErrMaxPayload)
}

func TestFreeze(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	r := openRegistry(t, queuetest.Open(t, queuetest.Config(t)))
	labels, version, err := r.Frozen(ctx)
	require.NoError(t, err)
	require.Nil(t, labels)
	require.Empty(t, version)
	for round, n := range []int{3, 40_000, 0} {
		want := map[feedback.Hash]feedback.Labels{}
		for i := range n {
			labels := feedback.Labels{Whole: bag.Compliant}
			switch i % 3 {
			case 0:
				labels.Whole = bag.Violation
			case 1:
				labels = feedback.Labels{Aspects: map[string]bag.Label{"toxicity": bag.Violation, "refusal": bag.Compliant}}
			}
			want[feedback.HashOf(fmt.Sprint(round, i))] = labels
		}
		require.NoError(t, r.Freeze(ctx, want, fmt.Sprint("v", round)))
		labels, version, err = r.Frozen(ctx)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint("v", round), version)
		require.Equal(t, want, labels)
	}
}

func TestAnUnreachableServerEndsWithTheContext(t *testing.T) {
	t.Parallel()
	srv := jstest.Server(t, &server.Options{})
	cfg := queuetest.Config(t)
	cfg.Conn.URL = srv.ClientURL()
	q := queuetest.Open(t, cfg)
	r := openRegistry(t, q)
	srv.Shutdown()
	srv.WaitForShutdown()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := r.Current(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = r.SetCurrent(ctx, retrain.Current{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, r.Publish(ctx, retrain.Event{Kind: retrain.EventTrained}), context.DeadlineExceeded)
	_, err = r.LastEvent(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, r.Freeze(ctx, nil, ""), context.DeadlineExceeded)
	_, open := <-r.WatchCurrent(ctx)
	require.False(t, open)
}
