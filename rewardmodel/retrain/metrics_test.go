package retrain

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestMetrics(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	f := newFleet()
	f.verdicts = []Verdict{{Reason: "it is worse"}, {Promote: true}}
	f.label(0, 60)
	m := NewMetrics(reg)
	var during float64 // the phase while the child process trains
	p := &process{metrics: m}
	p.worker = func(context.Context) error {
		during = testutil.ToFloat64(m.phases.WithLabelValues(string(PhaseTraining)))
		return nil
	}
	stop := f.start(t, "a", t.TempDir(), p)
	require.Equal(t, ResultRejected, f.ended(t, 1).Result)
	f.label(60, 60)
	f.ended(t, 2)
	stop()
	require.Equal(t, ResultPromoted, f.status.Last.Result)
	require.Equal(t, 1.0, during)

	o := Operator{Models: p, Currents: p, Statuses: p, Journal: p, Metrics: m}
	_, err := o.Rollback(t.Context(), "eve", "")
	require.NoError(t, err)
	_, err = o.Promote(t.Context(), f.status.Last.Version, "eve", "")
	require.NoError(t, err)

	want := `
# HELP assay_gate_decisions_total Candidates that the gate of this process judged, by decision: passed or rejected.
# TYPE assay_gate_decisions_total counter
assay_gate_decisions_total{decision="passed"} 1
assay_gate_decisions_total{decision="rejected"} 1
# HELP assay_model_promotions_total Versions that this process made current, by what decided it: gate or operator.
# TYPE assay_model_promotions_total counter
assay_model_promotions_total{by="gate"} 1
assay_model_promotions_total{by="operator"} 1
# HELP assay_model_rollbacks_total Rollbacks to an earlier version that operators requested of this process.
# TYPE assay_model_rollbacks_total counter
assay_model_rollbacks_total 1
# HELP assay_training_phase 1 for the phase of the fleet's training run: idle, collecting, training, gating or publishing. Of processes that train.
# TYPE assay_training_phase gauge
assay_training_phase{phase="collecting"} 0
assay_training_phase{phase="gating"} 0
assay_training_phase{phase="idle"} 1
assay_training_phase{phase="publishing"} 0
assay_training_phase{phase="training"} 0
`
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(want), "assay_gate_decisions_total",
		"assay_model_promotions_total", "assay_model_rollbacks_total", "assay_training_phase"))
	families, err := reg.Gather()
	require.NoError(t, err)
	runs := map[string]uint64{}
	for _, family := range families {
		if family.GetName() == "assay_training_run_seconds" {
			for _, series := range family.GetMetric() {
				runs[series.GetLabel()[0].GetValue()] = series.GetHistogram().GetSampleCount()
				require.Less(t, series.GetHistogram().GetSampleSum(), time.Minute.Seconds())
			}
		}
	}
	require.Equal(t, map[string]uint64{"promoted": 1, "rejected": 1, "failed": 0, "canceled": 0}, runs)
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// A process without metrics works.
func TestNoMetrics(t *testing.T) {
	var m *Metrics
	m.begin()
	m.phase(PhaseTraining)
	m.judged(Verdict{})
	m.ended(ResultPromoted, time.Second)
	m.changed(EventPromoted)
}
