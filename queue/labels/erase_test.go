package labels_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"assay/queue/internal/js"
	"assay/queue/internal/jstest"
	"assay/queue/labels"
	"assay/queue/labels/labelstest"
	"assay/queue/queuetest"
	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// requireErased waits until only the tombstone of an id is stored.
func requireErased(t *testing.T, f *labels.Log, id string) {
	t.Helper()
	require.Eventually(t, func() bool {
		left, err := f.RecordsOf(t.Context(), id)
		return err == nil && len(left) == 0
	}, jstest.Timeout, 10*time.Millisecond)
}

func TestErase(t *testing.T) {
	t.Parallel()
	cfg := queuetest.Config(t)
	cfg.Streams.KeepScored = time.Hour
	q := queuetest.Open(t, cfg)
	f := q.Labels()
	const secret = "a sentence that nobody may find on the disk"
	items := labelstest.Some(0, 50)
	for _, rater := range []string{"", "ann", "bob"} {
		items = append(items, bag.Bag{ID: "x", Label: bag.Violation, Response: secret, Rater: rater})
	}
	labelstest.Accepts(t, f, 53, 0, items...) // as a batch, of which the server stages a copy
	require.NoError(t, f.KeepScored(t.Context(), []labels.ScoredResponse{labelstest.Scored("x", secret), labelstest.Scored("y", "another")}))
	require.True(t, jstest.OnDisk(t, cfg.Server.DataDir, secret))

	n, err := f.Erase(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, 3, n)
	requireErased(t, f, "x")
	require.True(t, f.Index().Erased(feedback.HashOf("x")))
	require.Len(t, labelstest.Records(t, f), 50)
	_, found, err := f.Scored(t.Context(), "x")
	require.NoError(t, err)
	require.False(t, found)

	labelstest.Rejects(t, f, feedback.CodeErased, "erased", labelstest.Labelled("x", bag.Violation))
	require.NoError(t, f.KeepScored(t.Context(), []labels.ScoredResponse{labelstest.Scored("x", secret)}), "skipped")
	require.Equal(t, 1, jstest.Count(jstest.JetStream(t, q.Conn()), labels.StreamScored))

	// Again, and of unknown ids.
	for _, id := range []string{"x", "unknown", "unknown"} {
		n, err = f.Erase(t.Context(), id)
		require.NoError(t, err)
		require.Zero(t, n)
	}
	labelstest.Rejects(t, f, feedback.CodeErased, "erased", labelstest.Labelled("unknown", bag.Violation))
	queuetest.Close(t, q)
	require.False(t, jstest.OnDisk(t, cfg.Server.DataDir, secret), "overwritten")
}

// One replica erases while another stores labels of the same ids.
func TestEraseWhileAnotherReplicaAppends(t *testing.T) {
	t.Parallel()
	const ids = 20
	cfg := queuetest.Config(t)
	cfg.Streams.KeepScored = time.Hour
	q := queuetest.Open(t, cfg)
	f, other := q.Labels(), queuetest.Replica(t, q, cfg).Labels()
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	for rater := range 2 {
		done.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				label := []bag.Label{bag.Violation, bag.Compliant}[round%2]
				for i := range ids {
					b := labelstest.Labelled(fmt.Sprint("e", i), label)
					b.Rater = fmt.Sprint(rater)
					_, err := other.Append(t.Context(), labelstest.BatchOf(b), "")
					require.NoError(t, err)
					require.NoError(t, other.KeepScored(t.Context(), []labels.ScoredResponse{labelstest.Scored(b.ID, b.Response)}))
				}
			}
		})
	}
	require.Eventually(t, func() bool { return jstest.Count(jstest.JetStream(t, q.Conn()), labels.StreamFeedback) == 2*ids }, jstest.Timeout, time.Millisecond)
	for i := range ids {
		_, err := f.Erase(t.Context(), fmt.Sprint("e", i))
		require.NoError(t, err)
	}
	stop()
	done.Wait()
	for i := range ids {
		requireErased(t, f, fmt.Sprint("e", i))
	}
	require.Eventually(t, func() bool { return jstest.Count(jstest.JetStream(t, q.Conn()), labels.StreamScored) == 0 }, jstest.Timeout, 10*time.Millisecond)
	require.Equal(t, ids, jstest.Count(jstest.JetStream(t, q.Conn()), labels.StreamFeedback), "the tombstones")
	labelstest.CaughtUp(t, f)
	labelstest.CaughtUp(t, other)
	require.Empty(t, labelstest.Contents(f.Index()))
	require.Empty(t, labelstest.Contents(other.Index()))
}

// A process dies between the tombstone and the removal of the records.
func TestErasureIsCompletedAfterARestart(t *testing.T) {
	t.Parallel()
	cfg := queuetest.Config(t)
	q := queuetest.Open(t, cfg)
	labelstest.Accepts(t, q.Labels(), 10, 0, labelstest.Some(0, 10)...)
	q.Labels().Close()
	tombstone := &nats.Msg{Subject: labels.TombstoneSubject(feedback.HashOf("r4")), Header: nats.Header{}}
	js.SetRecordHeader(tombstone.Subject, tombstone.Header)
	_, err := jstest.JetStream(t, q.Conn()).PublishMsg(t.Context(), tombstone)
	require.NoError(t, err)
	require.Equal(t, 11, jstest.Count(jstest.JetStream(t, q.Conn()), labels.StreamFeedback))
	queuetest.Close(t, q)

	q = queuetest.Open(t, cfg)
	require.Len(t, labelstest.Records(t, q.Labels()), 9)
	requireErased(t, q.Labels(), "r4")
}

// Records expire, tombstones do not.
func TestFeedbackExpires(t *testing.T) {
	t.Parallel()
	cfg := queuetest.Config(t)
	cfg.Streams.FeedbackMaxAge = 2 * time.Second
	q := queuetest.Open(t, cfg)
	f := q.Labels()
	labelstest.Accepts(t, f, 10, 0, labelstest.Some(0, 10)...)
	_, err := f.Erase(t.Context(), "r1")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return jstest.Count(jstest.JetStream(t, q.Conn()), labels.StreamFeedback) == 1 }, jstest.Timeout, 20*time.Millisecond)
	queuetest.Close(t, q)

	q = queuetest.Open(t, cfg)
	labelstest.Rejects(t, q.Labels(), feedback.CodeErased, "erased", labelstest.Labelled("r1", bag.Violation))
	labelstest.Accepts(t, q.Labels(), 1, 0, labelstest.Labelled("r2", bag.Violation))

	// An index that still has an expired record accepts a correction.
	require.NoError(t, q.Labels().Stream().Purge(t.Context(), jetstream.WithPurgeSubject(labels.SubjectRecords+".>")))
	labelstest.Accepts(t, q.Labels(), 1, 0, labelstest.Labelled("r2", bag.Compliant))
	require.Eventually(t, func() bool { return q.Labels().Index().Stats(feedback.Split{}, 0).Records == 0 }, jstest.Timeout, 20*time.Millisecond)
	labelstest.Accepts(t, q.Labels(), 1, 0, labelstest.Labelled("r2", bag.Compliant))
}

func TestScoredResponses(t *testing.T) {
	t.Parallel()
	cfg := queuetest.Config(t)
	cfg.Streams.KeepScored = time.Hour
	q := queuetest.Open(t, cfg)
	f := q.Labels()
	require.True(t, f.KeepsScored())
	none, err := f.RecentScored(t.Context(), 5)
	require.NoError(t, err)
	require.Empty(t, none)
	messages := labelstest.Scored("m", "")
	messages.Item.Response = nil
	messages.Item.Messages = []rewardmodel.Message{{Role: "user", Content: "Hi"}, {Role: "assistant", Content: "Hello.\u2028"}}
	instances := labelstest.Scored("i", "")
	instances.Item.Response = nil
	instances.Item.Instances = []string{"One.", "Two."}
	for _, r := range []labels.ScoredResponse{messages, instances, labelstest.Scored("", "no id"), labelstest.Scored("blank", " ")} {
		require.NoError(t, f.KeepScored(t.Context(), []labels.ScoredResponse{r}))
	}
	for i := range 30 { // scored again and again
		require.NoError(t, f.KeepScored(t.Context(), []labels.ScoredResponse{labelstest.Scored(fmt.Sprint("k", i%3), fmt.Sprint("text ", i))}))
	}
	got, found, err := f.Scored(t.Context(), "m")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, messages, got)
	recent, err := f.RecentScored(t.Context(), 5)
	require.NoError(t, err)
	require.Len(t, recent, 5)
	require.Equal(t, labelstest.Scored("k2", "text 29"), recent[0])
	require.Equal(t, labelstest.Scored("k1", "text 28"), recent[1])
	require.Equal(t, "blank", recent[3].Item.ID)
	all, err := f.RecentScored(t.Context(), 100)
	require.NoError(t, err)
	require.Len(t, all, 6)
	require.Equal(t, "m", all[5].Item.ID)

	// Feedback by their ids.
	by := func(id, response string, b bag.Bag) feedback.Receipt {
		b.ID, b.Label = id, bag.Violation
		batch := feedback.Batch{Items: []feedback.Entry{{Item: feedback.Item{Bag: b, ResponseID: response}}}}
		receipt, err := f.Append(t.Context(), batch, "")
		require.NoError(t, err)
		return receipt
	}
	require.Equal(t, 1, by("m", "m", bag.Bag{}).Accepted)
	require.Equal(t, 1, by("i", "i", bag.Bag{}).Accepted)
	require.Equal(t, 1, by("other", "k2", bag.Bag{Rater: "ann"}).Accepted)
	require.Equal(t, 1, by("own", "unknown", bag.Bag{Response: "A text."}).Accepted)
	require.Equal(t, feedback.CodeUnknown, by("u", "unknown", bag.Bag{}).Rejected[0].Code)
	require.Equal(t, feedback.CodeNoText, by("blank", "blank", bag.Bag{}).Rejected[0].Code)
	all2 := labelstest.Records(t, f)
	require.Equal(t, []bag.Message{{Role: "user", Content: "Hi"}, {Role: "assistant", Content: "Hello.\u2028"}}, all2["m/"].Record.Bag.Messages)
	require.Equal(t, []string{"One.", "Two."}, all2["i/"].Record.Bag.Instances)
	record := all2["other/ann"].Record
	require.Equal(t, "text 29", record.Bag.Response)
	require.Equal(t, "Why?", record.Bag.Prompt)
	require.Equal(t, "v1", record.Model)
	require.Equal(t, 0.7, *record.Violation)
	require.Nil(t, all2["own/"].Record.Violation)

	_, err = f.Erase(t.Context(), "k2")
	require.NoError(t, err)
	require.Equal(t, feedback.CodeErased, by("again", "k2", bag.Bag{}).Rejected[0].Code)
}

// The retention of texts follows the setting, even if it becomes shorter.
func TestShorterRetention(t *testing.T) {
	t.Parallel()
	cfg := queuetest.Config(t)
	cfg.Streams.KeepScored = time.Hour
	q := queuetest.Open(t, cfg)
	require.Equal(t, time.Hour, q.Labels().ScoredStream().CachedInfo().Config.MaxAge)
	for _, keep := range []time.Duration{time.Minute, 2 * time.Hour} {
		cfg.Streams.KeepScored = keep
		other := queuetest.Replica(t, q, cfg)
		require.Equal(t, keep, jstest.StreamConfig(t, jstest.JetStream(t, other.Conn()), labels.StreamScored).MaxAge)
	}
	off := queuetest.Open(t, queuetest.Config(t))
	require.False(t, off.Labels().KeepsScored())
	require.NoError(t, off.Labels().KeepScored(t.Context(), []labels.ScoredResponse{labelstest.Scored("a", "b")}))
	_, err := jstest.JetStream(t, off.Conn()).Stream(t.Context(), labels.StreamScored)
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
}

// The age of a label counts by the clock of the server, which sets its timestamp.
func TestLabelsExpireByTheClockOfTheServer(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	cfg := queuetest.Config(t)
	cfg.Streams.FeedbackMaxAge = time.Hour
	q := queuetest.Open(t, cfg)
	l := q.Labels()
	labelstest.Accepts(t, l, 5, 0, labelstest.Some(0, 5)...)
	info, err := l.Stream().Info(ctx)
	require.NoError(t, err)
	require.NoError(t, l.Expire(ctx, info))
	require.Equal(t, 5, jstest.Count(jstest.JetStream(t, q.Conn()), labels.StreamFeedback))
	info.TimeStamp = info.TimeStamp.Add(2 * time.Hour)
	require.NoError(t, l.Expire(ctx, info))
	require.Zero(t, jstest.Count(jstest.JetStream(t, q.Conn()), labels.StreamFeedback))
}
