package queue

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/rewardmodel/feedback"
)

// Erasing reaches what else holds text of a response: its rewards, its dead
// letters, and the scored response that another process keeps.
func TestEraseReachesResults(t *testing.T) {
	t.Parallel()
	const secret = "a sentence that nobody may find on the disk"
	ctx := within(t)
	cfg := testConfig(t)
	keeps := cfg
	keeps.Streams.KeepScored = time.Hour
	q := openQueue(t, cfg)
	other := replica(t, q, keeps)
	require.NoError(t, other.Feedback().Keep(ctx, []KeptResponse{kept("x", secret), kept("y", "another")}))
	require.NoError(t, q.Start(ctx, scorerFunc(func(ctx context.Context, item rewardmodel.Item) (rewardmodel.Result, error) {
		result, err := good(ctx, item)
		result.Witness = &rewardmodel.Witness{Text: *item.Response}
		return result, err
	})))
	for _, c := range []struct{ id, body string }{
		{"1", `{"id":"x","response":"` + secret + `"}`},
		{"run7/2", `{"response":"` + secret + `","id":"\u0078"}`},
		{"x", `{"response":"` + secret + `"}`},
		{"3", `{"response":7,"prompt":"` + secret + `","id":"x"}`},
		{"4", `{"id":"x","response":"` + secret},
		{"5", `{"id":"y","response":"another"}`},
		{"6", `{"id":"y","response":7}`},
		{"", `no JSON`},
	} {
		publish(t, q, "run7", c.id, c.body)
	}
	settled(t, q)
	require.Equal(t, 4, count(t, q, StreamRewards))
	require.Equal(t, 4, count(t, q, StreamDead))

	_, err := q.Feedback().Erase(ctx, "x")
	require.NoError(t, err)
	require.Equal(t, 1, count(t, q, StreamRewards))
	require.Equal(t, 2, count(t, q, StreamDead))
	require.Equal(t, 1, count(t, q, StreamScored))
	publish(t, q, "run7", "7", `{"id":"x","response":"again"}`)
	settled(t, q)
	_, err = q.Feedback().Erase(ctx, "x")
	require.NoError(t, err)
	require.Equal(t, 1, count(t, q, StreamRewards))
	_, err = q.Feedback().Erase(ctx, "seq-8") // as the result of a response without an id would name it
	require.NoError(t, err)
	require.Equal(t, 1, count(t, q, StreamDead))
	closeQueue(t, other)
	closeQueue(t, q)
	for _, stream := range []string{StreamRewards, StreamDead, StreamScored} {
		part := cfg
		part.Server.DataDir = filepath.Join(cfg.Server.DataDir, "nats", "jetstream", "$G", "streams", stream)
		require.False(t, onDisk(t, part, secret), "overwritten in %s", stream)
	}
}

func TestIDOfResults(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"id":"a"}`: "a", `{"x":{"id":"b"},"id":"a"}`: "a", `{"id":"a","response":"cut`: "a", `{"response":"cut`: "",
		`{"id":7}`: "", `["id"]`: "", `x`: "", ``: "", `{"id":"a\u0062"}`: "ab",
	} {
		require.Equal(t, want, fieldID([]byte(body)), body)
	}
	dead := message{header: nats.Header{HeaderSequence: {"12"}}, data: []byte("no JSON")}
	require.Equal(t, "seq-12", dead.responseID())
	dead.header.Set(HeaderMsgID, "run7/1")
	require.Equal(t, "run7/1", dead.responseID())
	dead.header.Set(HeaderMsgID, strings.Repeat("i", rewardmodel.MaxName+1))
	require.Equal(t, "seq-12", dead.responseID(), "as its result would have it")
}

// Reports how long an erasure reads, by the number of rewards.
func BenchmarkErase(b *testing.B) {
	const rewards = 100_000
	cfg := testConfig(b)
	cfg.Server.SyncInterval = RelaxedSync // or the rewards take minutes to store
	q := openQueue(b, cfg)
	body := []byte(`{"id":"r1","reward":0.75,"witness":{"text":"` + strings.Repeat("x", 400) + `"}}`)
	js, err := jetstream.New(q.nc, jetstream.WithPublishAsyncMaxPending(1000))
	require.NoError(b, err)
	for range rewards {
		_, err := js.PublishAsync(SubjectRewards+".run7", body)
		require.NoError(b, err)
	}
	<-js.PublishAsyncComplete()
	for b.Loop() {
		_, err := q.Feedback().Erase(context.Background(), "unknown")
		require.NoError(b, err)
	}
	b.ReportMetric(float64(rewards)*float64(b.N)/b.Elapsed().Seconds(), "rewards/s")
}

// What is known of an erasure ends with it. A stream that lost its end has new
// messages under the sequences that an erasure had read.
func TestErasureForgetsWhereItEnded(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	q := openQueue(t, testConfig(t))
	f := q.Feedback()
	caughtUp(t, f)
	ack, err := q.js.Publish(ctx, SubjectRewards+".run7", []byte(`{"id":"x","reward":0.5}`))
	require.NoError(t, err)
	rewards, err := q.js.Stream(ctx, StreamRewards)
	require.NoError(t, err)
	key := erasure{StreamRewards, rewards.CachedInfo().Created.UnixNano(), feedback.HashOf("x")}
	f.erased.Store(key, ack.Sequence+3)
	_, err = f.Erase(ctx, "x")
	require.NoError(t, err)
	require.Zero(t, count(t, q, StreamRewards))
	_, known := f.erased.Load(key)
	require.False(t, known)
}
