package labels_test

import (
	"testing"
	"time"

	"assay/queue/internal/jstest"
	"assay/queue/labels"
	"assay/queue/labels/labelstest"
	"assay/queue/queuetest"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

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
	labelstest.Rejects(t, q.Labels(), feedback.CodeErased, "erased", labelstest.Labeled("r1", bag.Violation))
	labelstest.Accepts(t, q.Labels(), 1, 0, labelstest.Labeled("r2", bag.Violation))

	// An index that still has an expired record accepts a correction.
	require.NoError(t, q.Labels().Stream().Purge(t.Context(), jetstream.WithPurgeSubject(labels.SubjectRecords+".>")))
	labelstest.Accepts(t, q.Labels(), 1, 0, labelstest.Labeled("r2", bag.Compliant))
	require.Eventually(t, func() bool { return q.Labels().Index().Stats(feedback.Split{}, 0).Records == 0 }, jstest.Timeout, 20*time.Millisecond)
	labelstest.Accepts(t, q.Labels(), 1, 0, labelstest.Labeled("r2", bag.Compliant))
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
