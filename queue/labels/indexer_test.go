package labels

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/js"
	"assay/queue/internal/jstest"
	"assay/rewardmodel/feedback"
)

// A message whose decoding panics is skipped, and later ones are read.
func TestPanicWhileLabelsAreRead(t *testing.T) {
	t.Parallel()
	panics := prometheus.NewCounter(prometheus.CounterOpts{Name: "panics"})
	w := &indexer{Log: &Log{cfg: Config{Panics: panics}, log: zerolog.Nop()}} // without an index
	hash := feedback.HashOf("a")
	header := nats.Header{}
	js.Seal(tombstoneSubject(hash), header, nil)
	require.ErrorContains(t, w.apply(tombstoneSubject(hash), header, 1), "panic")
	w.index, w.erasures = feedback.NewIndex(), newPendingErasures()
	require.NoError(t, w.apply(tombstoneSubject(hash), header, 2))
	require.True(t, w.index.Erased(hash))
	require.Equal(t, 1.0, testutil.ToFloat64(panics))
}

// A message that the leader has and the consumer skipped leads to a new index, a deleted one does not.
func TestSkippedLabelsAreReadAgain(t *testing.T) {
	t.Parallel()
	ctx := jstest.Context(t)
	_, jet := jstest.Connect(t, &server.Options{})
	stream, err := jet.CreateStream(ctx, jetstream.StreamConfig{Name: StreamFeedback, Subjects: []string{SubjectFeedback + ".>"}})
	require.NoError(t, err)
	for _, id := range []string{"a", "b"} {
		_, err := jet.Publish(ctx, tombstoneSubject(feedback.HashOf(id)), nil)
		require.NoError(t, err)
	}
	info, err := stream.Info(ctx)
	require.NoError(t, err)
	w := &indexer{Log: &Log{stream: stream, log: zerolog.Nop()}}
	require.True(t, w.resume(info))
	before := w.index
	skipped := []js.Gap{{First: 1, Last: 1}}
	w.next, w.gaps = 3, skipped
	require.ErrorIs(t, w.verifyGaps(ctx), js.ErrUndelivered)
	require.True(t, w.resume(info))
	require.NotSame(t, before, w.index)
	require.Equal(t, uint64(1), w.next)
	require.Empty(t, w.gaps)

	require.NoError(t, stream.DeleteMsg(ctx, 1))
	w.next, w.gaps = 3, skipped
	require.NoError(t, w.verifyGaps(ctx))
	require.Empty(t, w.gaps)
	require.False(t, w.resume(info))
}
