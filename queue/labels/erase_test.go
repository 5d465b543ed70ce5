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
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"

	"github.com/nats-io/nats.go"
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

	labelstest.Rejects(t, f, feedback.CodeErased, "erased", labelstest.Labeled("x", bag.Violation))
	require.NoError(t, f.KeepScored(t.Context(), []labels.ScoredResponse{labelstest.Scored("x", secret)}), "skipped")
	require.Equal(t, 1, jstest.Count(jstest.JetStream(t, q.Conn()), labels.StreamScored))

	// Again, and of unknown ids.
	for _, id := range []string{"x", "unknown", "unknown"} {
		n, err = f.Erase(t.Context(), id)
		require.NoError(t, err)
		require.Zero(t, n)
	}
	labelstest.Rejects(t, f, feedback.CodeErased, "erased", labelstest.Labeled("unknown", bag.Violation))
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
					b := labelstest.Labeled(fmt.Sprint("e", i), label)
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
	js.Seal(tombstone.Subject, tombstone.Header, nil)
	_, err := jstest.JetStream(t, q.Conn()).PublishMsg(t.Context(), tombstone)
	require.NoError(t, err)
	require.Equal(t, 11, jstest.Count(jstest.JetStream(t, q.Conn()), labels.StreamFeedback))
	queuetest.Close(t, q)

	q = queuetest.Open(t, cfg)
	require.Len(t, labelstest.Records(t, q.Labels()), 9)
	requireErased(t, q.Labels(), "r4")
}
