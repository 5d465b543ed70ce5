package js

import (
	"bytes"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// Each damaged record is reported once, also above the limit.
func TestDamageIsReportedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	count := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "damaged"}, []string{"stream"})
	d := NewDamage(count, zerolog.New(&log))
	for range 2 {
		for sequence := range uint64(maxDamaged + 5) {
			d.Report(DamagedRecord{Stream: "S", Sequence: sequence})
		}
	}
	require.InDelta(t, maxDamaged, testutil.ToFloat64(count), 0)
	require.Equal(t, maxDamaged+1, bytes.Count(log.Bytes(), []byte("\n")), "one line says that the limit is reached")
	require.True(t, d.Known(DamagedRecord{Stream: "S", Sequence: maxDamaged - 1}))
	require.False(t, d.Known(DamagedRecord{Stream: "S", Sequence: maxDamaged}))
}
