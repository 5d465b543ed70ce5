package rewardmodel

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"assay/internal/trace"
)

// rewardBucket is one bucket of assay_response_reward.
type rewardBucket struct {
	limit float64
	count uint64 // up to the limit
	trace string // of its exemplar
}

// rewardsOf returns the buckets of the only version.
func rewardsOf(t *testing.T, reg prometheus.Gatherer) (buckets []rewardBucket) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "assay_response_reward" {
			continue
		}
		for _, b := range family.GetMetric()[0].GetHistogram().GetBucket() {
			found := rewardBucket{limit: b.GetUpperBound(), count: b.GetCumulativeCount()}
			for _, l := range b.GetExemplar().GetLabel() {
				found.trace += l.GetName() + "=" + l.GetValue()
			}
			buckets = append(buckets, found)
		}
	}
	return buckets
}

// The metrics of rewards do not depend on the scale that a request asks for.
func TestRewardMetrics(t *testing.T) {
	for _, scale := range []Reward{RewardCompliance, RewardLogit, RewardRaw} {
		t.Run(string(scale), func(t *testing.T) {
			reg := prometheus.NewPedanticRegistry()
			s, err := NewScorer(ScorerConfig{Version: "v1", MaxInstances: 2}, wordMargin(map[string]float32{"stink.": 6}), words{}, reg)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			req := responses("You stink.", "Hello.", "", "One. Two. Three.")
			req.Options.Reward = scale
			score(t, s, req)
			req.Internal = true
			score(t, s, req)
			want := `
# HELP assay_responses_empty_total Scored responses without text, which get the configured reward.
# TYPE assay_responses_empty_total counter
assay_responses_empty_total{model_version="v1"} 1
# HELP assay_responses_truncated_total Scored responses with more instances than are scored: the rest was skipped.
# TYPE assay_responses_truncated_total counter
assay_responses_truncated_total{model_version="v1"} 1
# HELP assay_violations_total Responses that are not compliant, without empty ones, by the aspect that decides. The aspect is empty for a model with one.
# TYPE assay_violations_total counter
assay_violations_total{aspect="",model_version="v1"} 1
`
			if err := testutil.GatherAndCompare(reg, strings.NewReader(want),
				"assay_responses_empty_total", "assay_responses_truncated_total", "assay_violations_total"); err != nil {
				t.Error(err)
			}
			for _, b := range rewardsOf(t, reg) {
				want := uint64(0)
				switch {
				case b.limit >= 0.999: // sigmoid(5) = 0.993
					want = 3
				case b.limit >= 0.01: // sigmoid(-6) = 0.002
					want = 1
				}
				if b.count != want {
					t.Errorf("%d rewards are at most %v, want %d", b.count, b.limit, want)
				}
			}
			s.DeleteMetrics()
			if families, err := reg.Gather(); err != nil || len(families) != 0 {
				t.Errorf("%d metrics of an unloaded version are left (%v)", len(families), err)
			}
		})
	}
}

// A violation counts for the aspect that decides.
func TestViolationsByAspect(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	aspects := []Aspect{{Name: "insult", Weight: 1}, {Name: "threat", Weight: 1}}
	model := modelFunc(func(batch []Sequence) ([]float32, error) {
		return slices.Repeat([]float32{-1, 2}, len(batch)), nil
	})
	s, err := NewScorer(ScorerConfig{Version: "v1", Aspects: aspects}, model, words{}, reg)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	score(t, s, responses("One.", "Two.", ""))
	want := `
# HELP assay_violations_total Responses that are not compliant, without empty ones, by the aspect that decides. The aspect is empty for a model with one.
# TYPE assay_violations_total counter
assay_violations_total{aspect="insult",model_version="v1"} 0
assay_violations_total{aspect="threat",model_version="v1"} 2
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "assay_violations_total"); err != nil {
		t.Error(err)
	}
}

// The trace of a request is the exemplar of its rewards.
func TestRewardExemplars(t *testing.T) {
	const id = "0af7651916cd43dd8448eb211c80319c"
	for name, test := range map[string]struct{ header, want string }{
		"none":    {"", ""},
		"sampled": {"00-" + id + "-b7ad6b7169203331-01", "trace_id=" + id},
		"not":     {"00-" + id + "-b7ad6b7169203331-00", ""},
	} {
		t.Run(name, func(t *testing.T) {
			reg := prometheus.NewPedanticRegistry()
			s, err := NewScorer(ScorerConfig{Version: "v1"}, wordMargin(nil), words{}, reg)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := s.Score(trace.NewContext(t.Context(), test.header), responses("Hello.")); err != nil {
				t.Fatal(err)
			}
			var found string
			for _, b := range rewardsOf(t, reg) {
				found += b.trace
			}
			if found != test.want {
				t.Errorf("the exemplar is %q, want %q", found, test.want)
			}
		})
	}
}

// The cost of the metrics of one result.
func BenchmarkObserveReward(b *testing.B) {
	s := newScorer(b, ScorerConfig{}, wordMargin(nil))
	sampled := trace.NewContext(b.Context(), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	for name, ctx := range map[string]context.Context{"plain": b.Context(), "exemplar": sampled} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.metrics.observe(ctx, Result{}, 0.3)
			}
		})
	}
}
