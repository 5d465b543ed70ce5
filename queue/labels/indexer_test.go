package labels

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue/internal/js"
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
