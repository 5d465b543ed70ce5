package labels_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"assay/queue/internal/jstest"
	"assay/queue/labels"
	"assay/queue/labels/labelstest"
	"assay/queue/queuetest"
	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"

	"github.com/stretchr/testify/require"
)

// The server is restarted with the process, or only the process.
func TestFeedbackSurvivesRestarts(t *testing.T) {
	t.Parallel()
	cfg := queuetest.Config(t)
	cfg.Server.Listen = freeAddress(t)
	q := queuetest.Open(t, cfg)
	other := queuetest.Replica(t, q, cfg).Labels() // is not restarted
	labelstest.Accepts(t, q.Labels(), 300, 0, labelstest.Some(0, 300)...)
	labelstest.Accepts(t, other, 1, 0, labelstest.Labeled("r1", bag.Violation))
	_, err := q.Labels().Erase(t.Context(), "r2")
	require.NoError(t, err)
	labelstest.CaughtUp(t, q.Labels())
	before := labelstest.Contents(q.Labels().Index())
	stored := labelstest.Records(t, q.Labels())
	require.Len(t, before, 299)
	queuetest.Close(t, q)

	q = queuetest.Open(t, cfg)
	labelstest.CaughtUp(t, q.Labels())
	require.Equal(t, before, labelstest.Contents(q.Labels().Index()))
	require.Equal(t, stored, labelstest.Records(t, q.Labels()))
	labelstest.Accepts(t, q.Labels(), 10, 297, labelstest.Some(3, 307)...)
	labelstest.Accepts(t, q.Labels(), 0, 1, labelstest.Labeled("r1", bag.Violation))
	labelstest.Rejects(t, q.Labels(), feedback.CodeErased, "erased", labelstest.Labeled("r2", bag.Violation))

	// The one that was not restarted.
	require.Eventually(t, func() bool {
		receipt, err := other.Append(t.Context(), labelstest.BatchOf(labelstest.Some(305, 10)...), "")
		return err == nil && receipt.Accepted == 5 && receipt.Duplicates == 5
	}, jstest.Timeout, 50*time.Millisecond)
	labelstest.CaughtUp(t, q.Labels())
	labelstest.CaughtUp(t, other)
	require.Equal(t, labelstest.Contents(q.Labels().Index()), labelstest.Contents(other.Index()))
}

func freeAddress(t testing.TB) string {
	t.Helper()
	q := queuetest.Open(t, queuetest.Config(t))
	address := strings.TrimPrefix(q.URL(), "nats://")
	queuetest.Close(t, q)
	return address
}

// noScorer is for tests that score nothing.
type noScorer struct{}

func (noScorer) Score(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	return rewardmodel.ScoreResponse{}, rewardmodel.ErrClosed
}

func TestFeedbackWhenFull(t *testing.T) {
	t.Parallel()
	cfg := queuetest.Config(t)
	cfg.Streams.FeedbackMaxBytes = 64 << 10
	q := queuetest.Open(t, cfg)
	require.NoError(t, q.Start(t.Context(), noScorer{}))
	f := q.Labels()
	stored := 0
	var err error
	for err == nil && stored < 1000 {
		var receipt feedback.Receipt
		receipt, err = f.Append(t.Context(), labelstest.BatchOf(labelstest.Some(stored, 1)...), "")
		stored += receipt.Accepted
	}
	require.ErrorIs(t, err, feedback.ErrStoreFull)
	require.Greater(t, stored, 50)
	reply, err := q.Conn().Request(labels.SubjectFeedback, []byte(`{"items":[{"id":"new","label":"violation","response":"x `+strings.Repeat("y", 1000)+`"}]}`), jstest.Timeout)
	require.NoError(t, err)
	require.Equal(t, "503", reply.Header.Get("Nats-Service-Error-Code"))
	require.Equal(t, "60", reply.Header.Get("Retry-After"))
	require.Contains(t, string(reply.Data), `"code":"store_full"`)

	// Stored labels can be corrected and erased, which frees space.
	n, err := f.Erase(t.Context(), "r0")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	for i := 1; i < 20; i++ {
		_, err = f.Erase(t.Context(), fmt.Sprint("r", i))
		require.NoError(t, err)
	}
	labelstest.Accepts(t, f, 1, 0, labelstest.Labeled("r2000", bag.Violation))
	require.Len(t, labelstest.Records(t, f), stored-20+1)
}

func TestAppendWithoutServer(t *testing.T) {
	t.Parallel()
	cfg := queuetest.Config(t)
	q := queuetest.Open(t, cfg)
	f := queuetest.Replica(t, q, cfg).Labels()
	labelstest.Accepts(t, f, 1, 0, labelstest.Labeled("a", bag.Violation))
	queuetest.Close(t, q)
	ctx, cancel := context.WithTimeout(t.Context(), jstest.Timeout)
	defer cancel()
	_, err := f.Append(ctx, labelstest.BatchOf(labelstest.Labeled("b", bag.Violation)), "")
	require.ErrorIs(t, err, feedback.ErrUnavailable)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	_, err = f.Append(ctx, labelstest.BatchOf(labelstest.Labeled("b", bag.Violation)), "")
	require.Error(t, err)
}

func TestForeignMessagesAmongTheFeedback(t *testing.T) {
	t.Parallel()
	q := queuetest.Open(t, queuetest.Config(t))
	f := q.Labels()
	for _, subject := range []string{"item.x", "erased.x", "whatever", "item." + feedback.HashOf("a").String() + "." + feedback.HashOf("").String()} {
		_, err := jstest.JetStream(t, q.Conn()).Publish(t.Context(), labels.SubjectFeedback+"."+subject, []byte("?"))
		require.NoError(t, err)
	}
	labelstest.Accepts(t, f, 1, 0, labelstest.Labeled("b", bag.Violation))
	require.Len(t, labelstest.Records(t, f), 1)
	labelstest.Accepts(t, f, 1, 0, labelstest.Labeled("a", bag.Violation))
	n, err := f.Erase(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// The hook of OnAppend gets the items that were accepted, and only those.
func TestOnAppend(t *testing.T) {
	t.Parallel()
	cfg := queuetest.Config(t)
	cfg.Streams.KeepScored = time.Hour
	l := queuetest.Open(t, cfg).Labels()
	labelstest.Accepts(t, l, 1, 0, labelstest.Labeled("a", bag.Violation))
	var got, texts []string
	l.OnAppend(func(accepted []feedback.Entry) {
		for _, item := range accepted {
			got, texts = append(got, item.ID), append(texts, item.Response)
		}
	})
	labelstest.Accepts(t, l, 2, 1, labelstest.Labeled("a", bag.Violation), labelstest.Labeled("b", bag.Compliant), labelstest.Labeled("c", bag.Violation))
	require.Equal(t, []string{"b", "c"}, got)
	labelstest.Accepts(t, l, 0, 1, labelstest.Labeled("a", bag.Violation))
	require.Len(t, got, 2, "it is not called without an accepted item")

	require.NoError(t, l.KeepScored(t.Context(), []labels.ScoredResponse{labelstest.Scored("s", "Kept.")}))
	batch := feedback.Batch{Items: []feedback.Entry{{Item: feedback.Item{Bag: bag.Bag{ID: "s", Label: bag.Violation}, ResponseID: "s"}}}}
	_, err := l.Append(t.Context(), batch, "")
	require.NoError(t, err)
	require.Equal(t, "Kept.", texts[2], "the text of a scored response is known")
}

// The stream is deleted and recreated while a process runs, whose index is rebuilt.
func TestRecreatedStream(t *testing.T) {
	t.Parallel()
	cfg := queuetest.Config(t)
	q := queuetest.Open(t, cfg)
	f := q.Labels()
	labelstest.Accepts(t, f, 10, 0, labelstest.Some(0, 10)...)
	labelstest.CaughtUp(t, f)
	config := f.Stream().CachedInfo().Config
	require.NoError(t, jstest.JetStream(t, q.Conn()).DeleteStream(t.Context(), labels.StreamFeedback))
	_, err := jstest.JetStream(t, q.Conn()).CreateStream(t.Context(), config)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		receipt, err := f.Append(t.Context(), labelstest.BatchOf(labelstest.Some(0, 10)...), "")
		return err == nil && receipt.Accepted == 10
	}, jstest.Timeout, 50*time.Millisecond)
}

func BenchmarkAppend(b *testing.B) {
	f := queuetest.Open(b, queuetest.Config(b)).Labels()
	const size = 1000
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		receipt, err := f.Append(b.Context(), labelstest.BatchOf(labelstest.Some(n, size)...), "")
		require.NoError(b, err)
		require.Equal(b, size, receipt.Accepted)
		n += size
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "items/s")
}

// BenchmarkOpen opens a log of 100,000 records and waits until its index is complete.
func BenchmarkFollow(b *testing.B) {
	cfg := queuetest.Config(b)
	q := queuetest.Open(b, cfg)
	const size = 100_000
	for i := 0; i < size; i += 5000 {
		_, err := q.Labels().Append(b.Context(), labelstest.BatchOf(labelstest.Some(i, 5000)...), "")
		require.NoError(b, err)
	}
	for b.Loop() {
		other := queuetest.Replica(b, q, cfg)
		require.NoError(b, other.Labels().CaughtUp(b.Context()))
		require.Equal(b, size, other.Labels().Index().Stats(feedback.Split{}, 0).Records)
		queuetest.Close(b, other)
	}
	b.ReportMetric(float64(size*b.N)/b.Elapsed().Seconds(), "records/s")
}
