package trace

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestObserve(t *testing.T) {
	const id, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for name, test := range map[string]struct {
		header   string
		valid    bool
		exemplar bool
	}{
		"none":            {},
		"sampled":         {"00-" + id + "-" + span + "-01", true, true},
		"other flags too": {"00-" + id + "-" + span + "-03", true, true},
		"not sampled":     {"00-" + id + "-" + span + "-00", true, false},
		"other flags":     {"00-" + id + "-" + span + "-02", true, false},
		"later version":   {"01-" + id + "-" + span + "-01", true, true},
		"version ff":      {"ff-" + id + "-" + span + "-01", false, false},
		"zero trace":      {"00-" + strings.Repeat("0", 32) + "-" + span + "-01", false, false},
		"zero span":       {"00-" + id + "-" + strings.Repeat("0", 16) + "-01", false, false},
		"uppercase":       {"00-" + strings.ToUpper(id) + "-" + span + "-01", false, false},
		"short":           {"00-" + id[1:] + "-" + span + "-01", false, false},
		"parts":           {"00-" + id + "-" + span, false, false},
		"nonsense":        {strings.Repeat("-", 3), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.valid, Valid(test.header))
			h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h", Buckets: []float64{1}})
			Observe(NewContext(t.Context(), test.header), h, 0.5)
			reg := prometheus.NewRegistry()
			require.NoError(t, reg.Register(h))
			families, err := reg.Gather()
			require.NoError(t, err)
			bucket := families[0].GetMetric()[0].GetHistogram().GetBucket()[0]
			require.EqualValues(t, 1, bucket.GetCumulativeCount())
			exemplar := bucket.GetExemplar()
			if !test.exemplar {
				require.Nil(t, exemplar)
				return
			}
			require.Len(t, exemplar.GetLabel(), 1)
			require.Equal(t, "trace_id", exemplar.GetLabel()[0].GetName())
			require.Equal(t, id, exemplar.GetLabel()[0].GetValue())
		})
	}
}

// FuzzValid reads arbitrary headers: what is valid identifies a trace and a span, and is
// what the span context prints, but for its version.
func FuzzValid(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=1,b=2")
	f.Add("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "")
	f.Add("cc-0AF7651916cd43dd8448eb211c80319c-0000000000000000-0-", ",=")
	f.Fuzz(func(t *testing.T, traceparent, tracestate string) {
		if !Valid(traceparent) {
			return
		}
		c := remote(traceparent, tracestate)
		if got := c.TraceID().String() + "-" + c.SpanID().String(); !c.IsValid() || got != traceparent[3:3+32+1+16] {
			t.Errorf("%q: got %s", traceparent, got)
		}
		if c.IsSampled() != sampled(traceparent) {
			t.Errorf("%q: sampled is %v", traceparent, c.IsSampled())
		}
	})
}
