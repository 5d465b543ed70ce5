package dedup

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
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

// reward is the reward of a response.
func reward(key string, sequence int) *nats.Msg {
	msg := nats.NewMsg("rewards.x")
	msg.Data = []byte(`{}`)
	msg.Header.Set(jetstream.MsgIDHeader, key)
	msg.Header.Set(js.HeaderSequence, strconv.Itoa(sequence))
	return msg
}

func store(t *testing.T, jet jetstream.JetStream, key string, sequence int) {
	t.Helper()
	_, err := jet.PublishMsg(t.Context(), reward(key, sequence))
	require.NoError(t, err)
}

// The index reads from the mark before the oldest response to the last reward of the
// leader, whatever a consumer reports as pending.
func TestIndexReadsToTheEnd(t *testing.T) {
	t.Parallel()
	jet := connect(t)
	const older, younger = 13, 20
	for i := range older {
		store(t, jet, fmt.Sprint("old", i), i+1)
	}
	marks := Marks{Marks: []Mark{{Response: older, Results: map[string]uint64{"REWARDS": older}}}}
	for i := range younger {
		store(t, jet, fmt.Sprint("x ", i), older+i+1)
	}
	stream, err := jet.Stream(t.Context(), "REWARDS")
	require.NoError(t, err)
	require.NoError(t, stream.DeleteMsg(t.Context(), older+5))
	for name, jet := range map[string]jetstream.JetStream{
		"as it is": jet, "undercounting": jstest.Undercounting{JetStream: jet}, "none": jstest.Undercounting{JetStream: jet, None: true},
	} {
		t.Run(name, func(t *testing.T) {
			x := New(jet, nil, "REWARDS")
			x.SetMarks(marks)
			require.NoError(t, x.Rebuild(t.Context(), older+1))
			require.Len(t, x.completed, younger-1, "none of the old ones")
			require.NoError(t, x.Rebuild(t.Context(), older+3))
			require.Len(t, x.completed, younger-3, "none of those between the mark and the oldest response")
			x.Clear()
			for i := range younger {
				before := time.Time{}
				if i == 7 {
					before = time.Now()
				}
				seen, err := x.Seen(t.Context(), Response{fmt.Sprint("x ", i), uint64(older + i + 1)}, before)
				require.NoError(t, err)
				require.Equal(t, i >= 7, seen, i)
			}
			// A response that was stored earlier is looked up after one that was stored later.
			seen, err := x.Seen(t.Context(), Response{"old0", 1}, time.Now())
			require.NoError(t, err)
			require.True(t, seen)
			require.Len(t, x.completed, older+younger-1)
			x.Forget(older + 3)
			require.Len(t, x.completed, younger-3)
			seen, err = x.Seen(t.Context(), Response{"old1", 2}, time.Now())
			require.NoError(t, err)
			require.True(t, seen, "the server delivers again what was acknowledged")
		})
	}
}

// A result is read once, and again only for a response that was delivered later.
func TestIndexReadsOnce(t *testing.T) {
	t.Parallel()
	jet := connect(t)
	x := New(jet, nil, "REWARDS")
	seen := func(key string, sequence uint64, before time.Time) bool {
		t.Helper()
		found, err := x.Seen(t.Context(), Response{key, sequence}, before)
		require.NoError(t, err)
		return found
	}
	delivered := time.Now()
	require.False(t, seen("a", 1, delivered))
	store(t, jet, "a", 1)
	require.False(t, seen("a", 1, delivered), "all results before the delivery are known")
	require.True(t, seen("a", 1, time.Now()))
	require.False(t, seen("a", 2, time.Now()), "another response with the same id")
	require.False(t, seen("b", 1, time.Now()), "another response with the same sequence")
}

// Results of an earlier stream of responses, which had the same sequences, are no results of
// this one, and a stream of results that was created again is read from its start.
func TestIndexOfOtherStreams(t *testing.T) {
	t.Parallel()
	jet, ctx := connect(t), t.Context()
	store(t, jet, "a", 1)
	stream, err := jet.Stream(ctx, "REWARDS")
	require.NoError(t, err)
	stored := stream.CachedInfo().State.LastTime
	x := New(jet, nil, "REWARDS")
	for created, want := range map[time.Time]bool{stored.Add(-time.Second): true, stored.Add(time.Second): false} {
		x.SetMarks(Marks{Created: created})
		require.NoError(t, x.Rebuild(t.Context(), 1))
		seen, err := x.Seen(t.Context(), Response{"a", 1}, time.Time{})
		require.NoError(t, err)
		require.Equal(t, want, seen, "without a mark")
	}
	x.SetMarks(Marks{Created: stored.Add(time.Hour), Marks: []Mark{{Response: 0, Results: map[string]uint64{"REWARDS": 0}}}})
	require.NoError(t, x.Rebuild(t.Context(), 1))
	seen, err := x.Seen(t.Context(), Response{"a", 1}, time.Time{})
	require.NoError(t, err)
	require.True(t, seen, "the mark says more than the clock")

	require.NoError(t, jet.DeleteStream(t.Context(), "REWARDS"))
	require.EventuallyWithT(t, func(c *assert.CollectT) { // the server may still be removing the directory
		_, err := jet.CreateStream(ctx, stream.CachedInfo().Config)
		assert.NoError(c, err)
	}, time.Minute, 10*time.Millisecond)
	x.SetMarks(Marks{Marks: []Mark{{Response: 5, Results: map[string]uint64{"REWARDS": 100}}}})
	store(t, jet, "b", 6)
	x.Clear()
	seen, err = x.Seen(t.Context(), Response{"b", 6}, time.Now())
	require.NoError(t, err)
	require.True(t, seen)
}

// The index does not wait for rewards that are erased while it reads.
func TestIndexReadsWhileTheLastAreErased(t *testing.T) {
	t.Parallel()
	jet := connect(t)
	const rewards = 5
	for i := range rewards {
		store(t, jet, fmt.Sprint("x ", i), i+1)
	}
	stream, err := jet.Stream(t.Context(), "REWARDS")
	require.NoError(t, err)
	require.NoError(t, stream.DeleteMsg(t.Context(), rewards))
	x := New(jstest.Overcounting{JetStream: jet}, nil, "REWARDS")
	require.NoError(t, x.Rebuild(t.Context(), 1))
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
	for i, change := range []func(*nats.Msg){
		func(*nats.Msg) {},
		func(m *nats.Msg) { m.Data[1] ^= 1 },
		func(m *nats.Msg) { m.Header.Set(js.HeaderModelVersion, "w") },
		func(m *nats.Msg) { m.Header.Del(js.HeaderChecksum) }, // as of an earlier release
	} {
		msg := reward(fmt.Sprint("key ", i), i+1)
		msg.Header.Set(js.HeaderModelVersion, "v")
		js.Seal(msg.Subject, msg.Header, msg.Data)
		change(msg)
		_, err := jet.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
	}
	for i, want := range []bool{true, false, false, true} {
		for range 2 {
			seen, err := x.Seen(t.Context(), Response{fmt.Sprint("key ", i), uint64(i + 1)}, time.Now())
			require.NoError(t, err)
			require.Equal(t, want, seen, i)
		}
	}
	require.ElementsMatch(t, []js.DamagedRecord{{Stream: "REWARDS", Subject: "rewards.x", Sequence: 2}, {Stream: "REWARDS", Subject: "rewards.x", Sequence: 3}}, reported)
	require.ErrorIs(t, x.Verify(t.Context(), "REWARDS", 2), js.ErrDamaged)
	require.NoError(t, x.Verify(t.Context(), "REWARDS", 1))
	require.NoError(t, x.Verify(t.Context(), "REWARDS", 9), "it is gone")
}
