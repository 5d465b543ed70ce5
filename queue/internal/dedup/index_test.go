package dedup

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

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
			x := New(jet, "REWARDS")
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
	x := New(jstest.Overcounting{JetStream: jet}, "REWARDS")
	require.NoError(t, x.Rebuild(t.Context(), time.Time{}))
	require.Len(t, x.completed, rewards-1)
}
