package dedup

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"assay/queue/internal/js"
	"assay/queue/internal/jstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t testing.TB) jetstream.JetStream {
	_, jet := jstest.Connect(t, &server.Options{})
	_, err := jet.CreateStream(t.Context(), jetstream.StreamConfig{Name: "REWARDS", Subjects: []string{"rewards.>"}})
	require.NoError(t, err)
	return jet
}

// The index reads from the first reward within its window to the last one of the
// leader, whatever a consumer reports as pending.
func TestIndexReadsToTheEnd(t *testing.T) {
	t.Parallel()
	jet := connect(t)
	store := func(key string) {
		msg := &nats.Msg{Subject: "rewards.x", Data: []byte(`{}`), Header: nats.Header{}}
		msg.Header.Set(jetstream.MsgIDHeader, key)
		_, err := jet.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
	}
	const older, younger = 13, 20
	for i := range older {
		store(fmt.Sprint("old", i))
	}
	stream, err := jet.Stream(t.Context(), "REWARDS")
	require.NoError(t, err)
	start := stream.CachedInfo().State.LastTime.Add(time.Nanosecond)
	for i := range younger {
		store(fmt.Sprint("x ", i))
	}
	require.NoError(t, stream.DeleteMsg(t.Context(), older+5))
	for name, jet := range map[string]jetstream.JetStream{
		"as it is": jet, "undercounting": jstest.Undercounting{JetStream: jet}, "none": jstest.Undercounting{JetStream: jet, None: true},
	} {
		t.Run(name, func(t *testing.T) {
			x := New(jet, nil, "REWARDS")
			require.NoError(t, x.Rebuild(t.Context(), start))
			require.Len(t, x.completed, younger-1, "none of the old ones")
			x.Clear()
			for i := range younger {
				seen, err := x.Seen(t.Context(), fmt.Sprint("x ", i), start, i == 7 || i == 12)
				require.NoError(t, err)
				require.Equal(t, i >= 7 && i != 4, seen, i)
			}
			// A response that is pending for longer is looked up after one that is not.
			seen, err := x.Seen(t.Context(), "old0", start.Add(-time.Hour), true)
			require.NoError(t, err)
			require.True(t, seen)
			require.Len(t, x.completed, older+younger-1)
		})
	}
}

// The index does not wait for rewards that are erased while it reads.
func TestIndexReadsWhileTheLastAreErased(t *testing.T) {
	t.Parallel()
	jet := connect(t)
	const rewards = 5
	for i := range rewards {
		msg := &nats.Msg{Subject: "rewards.x", Data: []byte(`{}`), Header: nats.Header{}}
		msg.Header.Set(jetstream.MsgIDHeader, fmt.Sprint("x ", i))
		_, err := jet.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
	}
	stream, err := jet.Stream(t.Context(), "REWARDS")
	require.NoError(t, err)
	require.NoError(t, stream.DeleteMsg(t.Context(), rewards))
	x := New(jstest.Overcounting{JetStream: jet}, nil, "REWARDS")
	require.NoError(t, x.Rebuild(t.Context(), time.Time{}))
	require.Len(t, x.completed, rewards-1)
}

// A damaged result is none, whether its headers or its payload are damaged, and is reported.
func TestDamagedResultsAreMissing(t *testing.T) {
	t.Parallel()
	jet := connect(t)
	var reported []js.DamagedRecord
	damage := js.NewDamage(prometheus.NewCounterVec(prometheus.CounterOpts{Name: "damaged"}, []string{"stream"}), zerolog.Nop())
	damage.OnReport(func(r js.DamagedRecord) { reported = append(reported, r) })
	x := New(jet, damage, "REWARDS")
	stored := time.Now().Add(-time.Minute)
	for i, change := range []func(*nats.Msg){
		func(*nats.Msg) {},
		func(m *nats.Msg) { m.Data[2] ^= 1 },
		func(m *nats.Msg) { m.Header.Set(js.HeaderModelVersion, "w") },
		func(m *nats.Msg) { m.Header.Del(js.HeaderChecksum) }, // as of an earlier release
	} {
		msg := &nats.Msg{Subject: "rewards.x", Data: []byte(`{"reward":0.5}`), Header: nats.Header{js.HeaderModelVersion: {"v"}}}
		msg.Header.Set(jetstream.MsgIDHeader, fmt.Sprint("key ", i))
		js.Seal(msg.Subject, msg.Header, msg.Data)
		change(msg)
		_, err := jet.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
	}
	for i, want := range []bool{true, false, false, true} {
		for range 2 {
			seen, err := x.Seen(t.Context(), fmt.Sprint("key ", i), stored, true)
			require.NoError(t, err)
			require.Equal(t, want, seen, i)
		}
	}
	require.ElementsMatch(t, []js.DamagedRecord{{Stream: "REWARDS", Subject: "rewards.x", Sequence: 2}, {Stream: "REWARDS", Subject: "rewards.x", Sequence: 3}}, reported)
	require.ErrorIs(t, x.Verify(t.Context(), "REWARDS", 2), js.ErrDamaged)
	require.NoError(t, x.Verify(t.Context(), "REWARDS", 1))
	require.NoError(t, x.Verify(t.Context(), "REWARDS", 9), "it is gone")
}
