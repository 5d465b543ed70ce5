package queue

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"assay/queue/embedded"
	"assay/queue/internal/js"
	"assay/queue/internal/jstest"
	"assay/queue/labels"
	"assay/queue/labels/labelstest"
	"assay/rewardmodel"
	"assay/rewardmodel/feedback"
)

// An erasure also removes the other copies of a text: rewards, dead letters, and
// the scored response that another process stores.
func TestEraseReachesResults(t *testing.T) {
	t.Parallel()
	const secret = "a sentence that nobody may find on the disk"
	ctx := jstest.Context(t)
	cfg := testConfig(t)
	keeps := cfg
	keeps.Streams.KeepScored = time.Hour
	q := openQueue(t, cfg)
	other := replica(t, q, keeps)
	require.NoError(t, other.Labels().KeepScored(ctx, []labels.ScoredResponse{labelstest.Scored("x", secret), labelstest.Scored("y", "another")}))
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
	awaitEmpty(t, q)
	require.Equal(t, 4, jstest.Count(q.js, StreamRewards))
	require.Equal(t, 4, jstest.Count(q.js, StreamDead))

	_, err := q.Labels().Erase(ctx, "x")
	require.NoError(t, err)
	require.Equal(t, 1, jstest.Count(q.js, StreamRewards))
	require.Equal(t, 2, jstest.Count(q.js, StreamDead))
	require.Equal(t, 1, jstest.Count(q.js, labels.StreamScored))
	publish(t, q, "run7", "7", `{"id":"x","response":"again"}`)
	awaitEmpty(t, q)
	_, err = q.Labels().Erase(ctx, "x")
	require.NoError(t, err)
	require.Equal(t, 1, jstest.Count(q.js, StreamRewards))
	_, err = q.Labels().Erase(ctx, "seq-8") // as the result of a response without an id would name it
	require.NoError(t, err)
	require.Equal(t, 1, jstest.Count(q.js, StreamDead))
	closeQueue(t, other)
	closeQueue(t, q)
	for _, stream := range []string{StreamRewards, StreamDead, labels.StreamScored} {
		part := cfg
		part.Server.DataDir = filepath.Join(cfg.Server.DataDir, "nats", "jetstream", "$G", "streams", stream)
		require.False(t, jstest.OnDisk(t, part.Server.DataDir, secret), "overwritten in %s", stream)
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
	dead := js.Message{Header: nats.Header{HeaderSequence: {"12"}}, Data: []byte("no JSON")}
	require.Equal(t, "seq-12", responseID(dead))
	dead.Header.Set(HeaderMsgID, "run7/1")
	require.Equal(t, "run7/1", responseID(dead))
	dead.Header.Set(HeaderMsgID, strings.Repeat("i", rewardmodel.MaxName+1))
	require.Equal(t, "seq-12", responseID(dead), "as its result would have it")
}

// FuzzFieldID: whatever follows the id of a result and wherever it is cut off, the id is
// found; otherwise an erasure would leave the result.
func FuzzFieldID(f *testing.F) {
	f.Add("r1", `"x":{"id":"b"}`, `"response":"cut`, uint8(3))
	f.Add("a\u2028\"\\b", `"x":[1,"]",{"id":null}]`, ``, uint8(0))
	f.Add("", ``, `"id":"c"`, uint8(255))
	f.Fuzz(func(t *testing.T, id, before, after string, cut uint8) {
		value, err := jsontext.AppendQuote(nil, id)
		var earlier map[string]any
		if err != nil || json.Unmarshal([]byte("{"+before+"}"), &earlier) != nil || earlier["id"] != nil {
			return // the id of a result is valid UTF-8, and occurs once
		}
		if len(earlier) > 0 {
			before += ","
		}
		head := "{" + before + `"id":` + string(value)
		tail := "," + after + "}"
		body := head + tail[:min(int(cut), len(tail))]
		if got := fieldID([]byte(body)); got != id {
			t.Fatalf("%s: got %q, want %q", body, got, id)
		}
	})
}

// BenchmarkErase measures the scan of an erasure by the number of rewards.
func BenchmarkErase(b *testing.B) {
	const rewards = 100_000
	cfg := testConfig(b)
	cfg.Server.SyncInterval = embedded.RelaxedSync // or the rewards take minutes to store
	q := openQueue(b, cfg)
	body := []byte(`{"id":"r1","reward":0.75,"witness":{"text":"` + strings.Repeat("x", 400) + `"}}`)
	jet, err := jetstream.New(q.nc, jetstream.WithPublishAsyncMaxPending(1000))
	require.NoError(b, err)
	for range rewards {
		_, err := jet.PublishAsync(SubjectRewards+".run7", body)
		require.NoError(b, err)
	}
	<-jet.PublishAsyncComplete()
	for b.Loop() {
		_, err := q.Labels().Erase(context.Background(), "unknown")
		require.NoError(b, err)
	}
	b.ReportMetric(float64(rewards)*float64(b.N)/b.Elapsed().Seconds(), "rewards/s")
}

// An interrupted erasure continues at its last position, unless the stream no longer has
// it; the position is then deleted.
func TestErasureContinues(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	q := openQueue(t, testConfig(t))
	ack, err := q.js.Publish(ctx, SubjectRewards+".run7", []byte(`{"id":"x","reward":0.5}`))
	require.NoError(t, err)
	rewards, err := q.js.Stream(ctx, StreamRewards)
	require.NoError(t, err)
	e, id := newResultEraser(q.js, q.nc.MaxPayload(), q.damage), feedback.HashOf("x")
	key := erasure{StreamRewards, rewards.CachedInfo().Created.UnixNano(), id}
	requireDone := func() {
		_, known := e.erased.Load(key)
		require.False(t, known)
	}
	e.erased.Store(key, ack.Sequence)
	require.NoError(t, e.erase(ctx, id))
	require.Equal(t, 1, jstest.Count(q.js, StreamRewards), "it was read before")
	requireDone()
	e.erased.Store(key, ack.Sequence+3)
	require.NoError(t, e.erase(ctx, id))
	require.Zero(t, jstest.Count(q.js, StreamRewards))
	requireDone()
}
