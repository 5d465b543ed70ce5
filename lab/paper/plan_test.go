package paper

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func preset(t *testing.T, name string, baselines []string, o Options) []Spec {
	t.Helper()
	blocks, err := Preset(name, baselines)
	require.NoError(t, err)
	o.Backbone = "minilm"
	plan, err := Plan(blocks, o)
	require.NoError(t, err)
	return plan
}

func TestPresets(t *testing.T) {
	require.Len(t, preset(t, Smoke, nil, Options{}), 22)

	// before the baselines are known: every method, variants, BFGPU and macro on the rest
	require.Len(t, preset(t, Small, nil, Options{}), 19+11+2*2+2*11+18*2+2*4)
	// with two baselines
	require.Len(t, preset(t, Small, []string{"robustpu", "mil-topk"}, Options{}), 19+11+2*4+2*11+18*4+2*6)

	sst2Macro1, long := 18*5+4, 18*4+3
	imbalanced := 2 * (20*5 + 4)
	require.Len(t, preset(t, PaperGrid, nil, Options{}), 3*(2*sst2Macro1+2*long+imbalanced+11*5+2*4+10+19))

	_, err := Preset("huge", nil)
	require.ErrorIs(t, err, ErrSpec)
}

// The most informative runs come first: the first seed of all before the second of any.
func TestPlanOrder(t *testing.T) {
	plan := preset(t, PaperGrid, nil, Options{})
	for i := 1; i < len(plan); i++ {
		require.LessOrEqual(t, plan[i-1].Seed, plan[i].Seed)
	}
	plan = preset(t, Small, nil, Options{})
	require.Equal(t, []string{BFGPU, Macro, Oracle}, []string{plan[0].Method, plan[1].Method, plan[2].Method})
}

func TestPlanFilters(t *testing.T) {
	plan := preset(t, PaperGrid, nil, Options{
		Datasets: []string{SST2}, Methods: []string{BFGPU}, SigmaMicro: []int{10}, SigmaMacro: []int{1}, Seeds: []uint64{2}, Rate: 1e-4, Epochs: 2,
	})
	require.Len(t, plan, 12) // the defaults and 11 variants
	for _, s := range plan {
		require.Equal(t, []any{SST2, BFGPU, 10, 1, uint64(2), 1e-4, 2, 16},
			[]any{s.Dataset, s.Method, s.SigmaMicro, s.SigmaMacro, s.Seed, s.Rate, s.Epochs, s.Batch})
	}
	_, err := Plan(paperGrid(), Options{Backbone: "b", Methods: []string{"bfgpq"}})
	require.ErrorContains(t, err, "bfgpq")
	_, err = Plan(paperGrid(), Options{Backbone: "b", Datasets: []string{"sst3"}})
	require.ErrorContains(t, err, "sst3")
	_, err = Plan(paperGrid(), Options{})
	require.ErrorContains(t, err, "backbone")
}

func TestPlanFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plan.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o644)) }
	write(`runs:
  - {datasets: [sst2, imdb-sentences], sigma-micro: [2, 4], methods: [bfgpu, macro], seeds: [0, 1], rate: 2e-5, bags: 50}
  - {datasets: [sst2], sigma-micro: [2], methods: ["llm:gpt-4o"]}
  - {datasets: [sst2], sigma-micro: [2], methods: [bfgpu], settings: ["loss=cross-entropy"], batch: 8}
`)
	blocks, err := ReadBlocks(path)
	require.NoError(t, err)
	plan, err := Plan(blocks, Options{Backbone: "b"})
	require.NoError(t, err)
	require.Len(t, plan, 2*(2*2+2)+2)
	require.Equal(t, Spec{
		Dataset: SST2, SigmaMicro: 2, SigmaMacro: 1, Method: BFGPU, Settings: DefaultSettings(BFGPU), Backbone: "b",
		Rate: 2e-5, Epochs: 5, Batch: 16, Bags: 50,
	}, plan[0])
	require.Equal(t, Spec{Dataset: SST2, SigmaMicro: 2, SigmaMacro: 1, Method: "llm:gpt-4o"}, plan[len(plan)-2])
	require.Equal(t, "loss=cross-entropy", difference(plan[len(plan)-1]))
	require.Equal(t, 8, plan[len(plan)-1].Batch)

	for text, names := range map[string]string{
		"runs: []": "no runs", "": "no runs", "runs:\n  - {dataset: [sst2]}": "dataset", "runs: 3": "plan.yaml",
	} {
		write(text)
		_, err := ReadBlocks(path)
		require.ErrorIs(t, err, ErrSpec, text)
		require.ErrorContains(t, err, names)
	}
	for _, bad := range []Block{
		{Datasets: []string{SST2}, Methods: []string{BFGPU}}, {Datasets: []string{SST2}, SigmaMicro: []int{2}},
		{Datasets: []string{SST2}, SigmaMicro: []int{2}, Methods: []string{BFGPU}, Settings: []string{"loss"}},
	} {
		_, err := Plan([]Block{bad}, Options{Backbone: "b"})
		require.ErrorIs(t, err, ErrSpec)
		require.ErrorContains(t, err, "block 1")
	}
}

func TestBestBaselines(t *testing.T) {
	var records []Record
	for method, acc := range map[string]float64{BFGPU: 0.9, Macro: 0.8, Oracle: 0.95, MILMax: 0.6, UPU: 0.7, NNPU: 0.7, RobustPU: 0.5} {
		records = append(records, syntheticRecord(Spec{Dataset: SST2, SigmaMicro: 2, SigmaMacro: 1, Method: method, Backbone: "b"}, acc))
	}
	require.Equal(t, []string{UPU, NNPU}, BestBaselines(records, SST2, "b", 2))
	require.Equal(t, []string{UPU, NNPU, MILMax, RobustPU}, BestBaselines(records, SST2, "b", 9))
	require.Empty(t, BestBaselines(records, SST2, "c", 2))
}
