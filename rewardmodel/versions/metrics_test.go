package versions

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestSetMetrics(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	s := newFakeLoader(t)
	s.reg = reg
	v := newSet(t, Config{}, s)
	for _, version := range []string{"v2", "v3", "v2", "other"} {
		_, _ = pin(t.Context(), v, version)
	}
	if _, err := New(Config{}, s, reg); err == nil {
		t.Error("two share a registry")
	}
	want := `
# HELP assay_model_bytes Memory of a model version in bytes: its weights and its full cache.
# TYPE assay_model_bytes gauge
assay_model_bytes{model_version="v1"} 100
assay_model_bytes{model_version="v2"} 100
# HELP assay_model_current 1 for the current model version, which scores requests that pin no version.
# TYPE assay_model_current gauge
assay_model_current{model_version="v1"} 1
# HELP assay_model_load_failures_total Failed loads of a model version by reason: unknown, no_room, closed or failed.
# TYPE assay_model_load_failures_total counter
assay_model_load_failures_total{reason="closed"} 0
assay_model_load_failures_total{reason="failed"} 0
assay_model_load_failures_total{reason="no_room"} 0
assay_model_load_failures_total{reason="unknown"} 1
# HELP assay_model_loaded 1 for each model version in memory.
# TYPE assay_model_loaded gauge
assay_model_loaded{model_version="v1"} 1
assay_model_loaded{model_version="v2"} 1
# HELP assay_responses_total Responses that were scored.
# TYPE assay_responses_total counter
assay_responses_total{model_version="v1"} 0
assay_responses_total{model_version="v2"} 2
`
	err := testutil.GatherAndCompare(reg, strings.NewReader(want), "assay_model_bytes", "assay_model_current",
		"assay_model_load_failures_total", "assay_model_loaded", "assay_responses_total")
	if err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if families, err := reg.Gather(); err != nil || len(families) != 0 {
		t.Errorf("%d metrics are left behind (%v), such as %v", len(families), err, families[0].GetName())
	}
}
