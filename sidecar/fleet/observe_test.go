package fleet

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"assay/queue/labels"
	"assay/rewardmodel"
	"assay/rewardmodel/retrain"
	"assay/rewardmodel/versions"
)

// The monitor of a model with many aspects takes no memory from the requests that it observes.
func TestObserveCostsNoMemory(t *testing.T) {
	set, err := versions.New(versions.Config{}, manyAspects{}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	require.NoError(t, set.Promote(t.Context(), "v1"))
	l := &Learning{versions: set, labels: &labels.Log{}, monitor: newMonitor(nil, set, prometheus.NewRegistry(), zerolog.Nop())}
	l.monitor.watch("v1", aspectsOf(set, "v1"))

	text := strings.Repeat("Go on. ", 4000)
	score := func(score func(context.Context, rewardmodel.Request) (rewardmodel.ScoreResponse, error), limit int64) (rewardmodel.ScoreResponse, error) {
		memory, err := rewardmodel.NewMemory(limit, nil)
		require.NoError(t, err)
		req := rewardmodel.Request{Responses: make([]rewardmodel.Item, 6), Memory: memory.Open()}
		for i := range req.Responses {
			req.Responses[i] = rewardmodel.Item{ID: "r", Response: &text}
		}
		defer req.Memory.Close()
		return score(t.Context(), req)
	}
	const limit = 16 << 20
	want, err := score(set.Score, limit)
	require.NoError(t, err)
	got, err := score(l.Observe, limit)
	require.NoError(t, err)
	got.TimingMS = want.TimingMS
	require.Equal(t, want, got)

	for range retrain.WindowSize / 2 { // live sessions count as well
		session, release, err := set.Live(t.Context(), rewardmodel.LiveRequest{Scored: l.Scored})
		require.NoError(t, err)
		_, err = session.Feed(t.Context(), "a b")
		require.NoError(t, err)
		_, _, err = session.Close(t.Context())
		require.NoError(t, err)
		release()
	}
	for range retrain.WindowSize - retrain.WindowSize/2 {
		_, err := l.Observe(t.Context(), rewardmodel.Request{Responses: []rewardmodel.Item{{Instances: []string{"a b"}}}})
		require.NoError(t, err)
	}
	_, scores := l.monitor.series["a3"].window.Reference()
	require.Len(t, scores, retrain.WindowSize)
}

// manyAspects loads a model with 16 aspects.
type manyAspects struct{}

func (manyAspects) Load(_ context.Context, version string, _ func(int64) error) (versions.Loaded, error) {
	cfg := rewardmodel.ScorerConfig{Version: version, MaxLength: 64}
	for i := range rewardmodel.MaxAspects {
		cfg.Aspects = append(cfg.Aspects, rewardmodel.Aspect{Name: "a" + string("0123456789abcdef"[i]), Weight: 1})
	}
	s, err := rewardmodel.NewScorer(cfg, zeros{}, bytesAsTokens{}, nil)
	return versions.Loaded{Scorer: s}, err
}

// zeros is a model that is undecided in every aspect.
type zeros struct{}

func (zeros) Margins(batch []rewardmodel.Sequence) ([]float32, error) {
	return make([]float32, rewardmodel.MaxAspects*len(batch)), nil
}

// bytesAsTokens makes a token of each byte.
type bytesAsTokens struct{}

func (bytesAsTokens) IDsContext(_ context.Context, text string) ([]int32, error) {
	return make([]int32, len(text)), nil
}
func (bytesAsTokens) Frame(ids []int32) []int32 { return ids }
func (bytesAsTokens) Special() int              { return 0 }
