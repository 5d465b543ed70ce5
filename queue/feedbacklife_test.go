package queue

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
	"github.com/stretchr/testify/require"
)

// The server is restarted, and the process with it, or the process alone.
func TestFeedbackSurvivesRestarts(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Server.Listen = freeAddress(t)
	q := openQueue(t, cfg)
	other := replica(t, q, cfg).Feedback() // lives through all of it
	accepts(t, q.Feedback(), 300, 0, some(0, 300)...)
	accepts(t, other, 1, 0, labelled("r1", bag.Violation))
	_, err := q.Feedback().Erase(t.Context(), "r2")
	require.NoError(t, err)
	caughtUp(t, q.Feedback())
	before := contents(q.Feedback().Index())
	stored := records(t, q.Feedback())
	require.Len(t, before, 299)
	closeQueue(t, q)

	q = openQueue(t, cfg)
	caughtUp(t, q.Feedback())
	require.Equal(t, before, contents(q.Feedback().Index()))
	require.Equal(t, stored, records(t, q.Feedback()))
	accepts(t, q.Feedback(), 10, 297, some(3, 307)...)
	accepts(t, q.Feedback(), 0, 1, labelled("r1", bag.Violation))
	rejects(t, q.Feedback(), feedback.CodeErased, "erased", labelled("r2", bag.Violation))

	// The one that was there all the time.
	require.Eventually(t, func() bool {
		receipt, err := other.Append(t.Context(), batchOf(some(305, 10)...), "")
		return err == nil && receipt.Accepted == 5 && receipt.Duplicates == 5
	}, patience, 50*time.Millisecond)
	caughtUp(t, q.Feedback())
	caughtUp(t, other)
	require.Equal(t, contents(q.Feedback().Index()), contents(other.Index()))
}

func freeAddress(t testing.TB) string {
	t.Helper()
	q := openQueue(t, testConfig(t))
	address := strings.TrimPrefix(q.URL(), "nats://")
	closeQueue(t, q)
	return address
}

func TestFeedbackWhenFull(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Streams.FeedbackMaxBytes = 64 << 10
	q := startQueue(t, cfg, scorerFunc(good))
	f := q.Feedback()
	stored := 0
	var err error
	for err == nil && stored < 1000 {
		var receipt feedback.Receipt
		receipt, err = f.Append(t.Context(), batchOf(some(stored, 1)...), "")
		stored += receipt.Accepted
	}
	require.ErrorIs(t, err, feedback.ErrStoreFull)
	require.Greater(t, stored, 50)
	reply, err := q.nc.Request(SubjectFeedback, []byte(`{"items":[{"id":"new","label":"violation","response":"x `+strings.Repeat("y", 1000)+`"}]}`), patience)
	require.NoError(t, err)
	require.Equal(t, "503", reply.Header.Get("Nats-Service-Error-Code"))
	require.Equal(t, "60", reply.Header.Get("Retry-After"))
	require.Contains(t, string(reply.Data), `"code":"store_full"`)

	// What is there can be corrected and erased, and then there is room.
	n, err := f.Erase(t.Context(), "r0")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	for i := 1; i < 20; i++ {
		_, err = f.Erase(t.Context(), fmt.Sprint("r", i))
		require.NoError(t, err)
	}
	accepts(t, f, 1, 0, labelled("r2000", bag.Violation))
	require.Len(t, records(t, f), stored-20+1)
}

func TestAppendWithoutServer(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	q := openQueue(t, cfg)
	f := replica(t, q, cfg).Feedback()
	accepts(t, f, 1, 0, labelled("a", bag.Violation))
	closeQueue(t, q)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := f.Append(ctx, batchOf(labelled("b", bag.Violation)), "")
	require.ErrorIs(t, err, feedback.ErrUnavailable)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	_, err = f.Append(ctx, batchOf(labelled("b", bag.Violation)), "")
	require.Error(t, err)
}

func TestForeignMessagesAmongTheFeedback(t *testing.T) {
	t.Parallel()
	q := openQueue(t, testConfig(t))
	f := q.Feedback()
	for _, subject := range []string{"item.x", "erased.x", "whatever", "item." + feedback.HashOf("a").String() + "." + feedback.HashOf("").String()} {
		_, err := q.js.Publish(t.Context(), SubjectFeedback+"."+subject, []byte("?"))
		require.NoError(t, err)
	}
	accepts(t, f, 1, 0, labelled("b", bag.Violation))
	require.Len(t, records(t, f), 1)
	accepts(t, f, 1, 0, labelled("a", bag.Violation))
	n, err := f.Erase(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

func TestChanged(t *testing.T) {
	t.Parallel()
	f := openQueue(t, testConfig(t)).Feedback()
	caughtUp(t, f)
	select {
	case <-f.Changed():
	default:
	}
	accepts(t, f, 1, 0, labelled("a", bag.Violation))
	<-f.Changed()
	require.True(t, f.Index().Last() > 0)
}

// The stream is made anew under a running process: what it knew is void.
func TestStreamMadeAnew(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	q := openQueue(t, cfg)
	f := q.Feedback()
	accepts(t, f, 10, 0, some(0, 10)...)
	caughtUp(t, f)
	config := f.stream.CachedInfo().Config
	require.NoError(t, q.js.DeleteStream(t.Context(), StreamFeedback))
	_, err := q.js.CreateStream(t.Context(), config)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		receipt, err := f.Append(t.Context(), batchOf(some(0, 10)...), "")
		return err == nil && receipt.Accepted == 10
	}, patience, 50*time.Millisecond)
}

func BenchmarkAppend(b *testing.B) {
	f := openQueue(b, testConfig(b)).Feedback()
	const size = 1000
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		receipt, err := f.Append(b.Context(), batchOf(some(n, size)...), "")
		require.NoError(b, err)
		require.Equal(b, size, receipt.Accepted)
		n += size
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "items/s")
}

// Opening a log of 100,000 records, until its index is complete.
func BenchmarkFollow(b *testing.B) {
	cfg := testConfig(b)
	q := openQueue(b, cfg)
	const size = 100_000
	for i := 0; i < size; i += 5000 {
		_, err := q.Feedback().Append(b.Context(), batchOf(some(i, 5000)...), "")
		require.NoError(b, err)
	}
	for b.Loop() {
		other := replica(b, q, cfg)
		require.NoError(b, other.Feedback().CaughtUp(b.Context()))
		require.Equal(b, size, other.Feedback().Index().Stats(feedback.Split{}, 0).Records)
		closeQueue(b, other)
	}
	b.ReportMetric(float64(size*b.N)/b.Elapsed().Seconds(), "records/s")
}
