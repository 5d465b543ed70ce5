package paper

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The presets.
const (
	Smoke     = "smoke" // every method on a few bags in five minutes, as a smoke test
	Small     = "small" // what a small backbone can show in hours on a CPU
	PaperGrid = "paper" // the whole of the paper; for a GPU
)

// Presets lists their names.
func Presets() []string { return []string{Smoke, Small, PaperGrid} }

// DefaultSettings are the settings of a method unless a plan overrides them. Every spec contains them, so that the
// meaning of a run does not depend on later defaults.
func DefaultSettings(method string) Settings {
	switch {
	case method == BFGPU:
		return Settings{
			"weights": "batch", "normaliser": "sum", "loss": "sigmoid",
			"pseudo-from": "after", "threshold": "per-bag",
		}
	case strings.HasSuffix(method, PLADT):
		return Settings{"threshold": "per-bag"}
	}
	return nil
}

// variants are the settings of BFGPU that are compared: the flavours of the authors' code and of the paper's text, each
// option separately, and the ablations. Other placements of the threshold need no separate run: see
// Record.AtThreshold.
func variants() []string {
	return []string{
		code, "loss=cross-entropy weights=paper normaliser=count threshold=quantile",
		"loss=cross-entropy", "pseudo-from=during", code + " weights=paper", code + " normaliser=count",
		withoutLoss, withoutPseudoLabels, "weights=paper", "normaliser=count", "fold=0.2",
	}
}

// code is the flavour of the authors' code. withoutLoss and withoutPseudoLabels are ablations of the paper; its third,
// without ADT, is Record.AtThreshold.
const (
	code                = "loss=cross-entropy pseudo-from=during threshold=one-per-bag"
	withoutLoss         = "pu-loss=false"
	withoutPseudoLabels = "pseudo-labels=false"
)

// without returns the methods except those named.
func without(methods []string, names ...string) []string {
	return slices.DeleteFunc(slices.Clone(methods), func(m string) bool { return slices.Contains(names, m) })
}

// Preset returns the blocks of a preset. baselines are the methods that the small preset takes in addition to BFGPU and
// the macro supervised one where it cannot take all; see BestBaselines.
func Preset(name string, baselines []string) ([]Block, error) {
	switch name {
	case Smoke:
		return smoke(), nil
	case Small:
		return small(baselines), nil
	case PaperGrid:
		return paperGrid(), nil
	}
	return nil, fmt.Errorf("%w: preset is %q; use one of %s", ErrSpec, name, strings.Join(Presets(), ", "))
}

// everyMethod omits over- and under-sampling, which change nothing at sigma_macro 1.
func everyMethod() []string { return without(Methods(), MacroOver, MacroUnder) }

func smoke() []Block {
	return []Block{
		{Datasets: []string{SST2}, SigmaMicro: []int{2}, Methods: everyMethod(), Rate: 2e-5, Epochs: 1, Bags: 16},
		{Datasets: []string{SST2}, SigmaMicro: []int{2}, SigmaMacro: []int{5}, Methods: []string{MacroOver, MacroUnder, BFGPU}, Rate: 2e-5, Epochs: 1, Bags: 6},
	}
}

func small(baselines []string) []Block {
	leading := slices.Concat([]string{BFGPU, Macro}, without(baselines, BFGPU, Macro))
	later := []uint64{1, 2}
	blocks := []Block{
		{Datasets: []string{SST2}, SigmaMicro: []int{2}, Methods: slices.Concat([]string{BFGPU, Macro, Oracle}, without(everyMethod(), BFGPU, Macro, Oracle))},
		{Datasets: []string{SST2}, SigmaMicro: []int{2}, Methods: []string{BFGPU}, Settings: variants()},
		{Datasets: []string{SST2}, SigmaMicro: []int{2}, Methods: leading, Seeds: later},
		{Datasets: []string{SST2}, SigmaMicro: []int{2}, Methods: []string{BFGPU}, Settings: variants(), Seeds: later},
		{Datasets: []string{SST2Max}, SigmaMicro: []int{2}, Methods: leading},
		{Datasets: []string{Sentiment140}, SigmaMicro: []int{2}, Methods: leading, Bags: 722},
		{Datasets: []string{IMDBSentences}, Methods: leading, Bags: 200},
		{Datasets: []string{Amazon}, SigmaMicro: []int{2}, Methods: leading, Bags: 100},
		{Datasets: []string{SST2Max}, SigmaMicro: []int{4, 10}, Methods: leading},
		{Datasets: []string{SST2}, SigmaMicro: []int{2}, SigmaMacro: []int{5, 10}, Methods: slices.Concat(leading, []string{MacroOver, MacroUnder})},
		{Datasets: []string{Sentiment140}, SigmaMicro: []int{4, 10}, Methods: leading, Bags: 722},
		{Datasets: []string{Amazon}, SigmaMicro: []int{5}, Methods: leading, Bags: 100},
		{Datasets: []string{IMDB}, SigmaMicro: []int{2, 5}, Methods: leading, Bags: 100},
		{Datasets: []string{Sentiment140}, SigmaMicro: []int{2, 4, 10}, Methods: leading, Bags: 1900},
		{Datasets: []string{Amazon}, SigmaMicro: []int{2, 5}, Methods: leading},
		{Datasets: []string{IMDB}, SigmaMicro: []int{2, 5}, Methods: leading, Bags: 500},
	}
	for i := range blocks {
		blocks[i].Rate = 2e-5
	}
	return blocks
}

func paperGrid() []Block {
	short, long := []int{2, 10, 6, 4, 8}, []int{2, 5, 3, 4}
	seeds := []uint64{0, 1, 2}
	trained := without(everyMethod(), MILTopK) // top-k of 3 needs bags of more than 3 instances
	var blocks []Block
	for _, seed := range seeds {
		at := []uint64{seed}
		blocks = append(blocks,
			Block{Datasets: []string{SST2, Sentiment140}, SigmaMicro: short, Methods: trained, Seeds: at},
			Block{Datasets: []string{SST2, Sentiment140}, SigmaMicro: short[1:], Methods: []string{MILTopK}, Seeds: at},
			Block{Datasets: []string{IMDB, Amazon}, SigmaMicro: long, Methods: trained, Seeds: at},
			Block{Datasets: []string{IMDB, Amazon}, SigmaMicro: long[1:], Methods: []string{MILTopK}, Seeds: at},
			Block{Datasets: []string{SST2}, SigmaMicro: short, SigmaMacro: []int{5, 10}, Methods: without(Methods(), MILTopK), Seeds: at},
			Block{Datasets: []string{SST2}, SigmaMicro: short[1:], SigmaMacro: []int{5, 10}, Methods: []string{MILTopK}, Seeds: at},
			Block{Datasets: []string{SST2}, SigmaMicro: short, Methods: []string{BFGPU}, Settings: variants(), Seeds: at},
			Block{Datasets: []string{IMDB}, SigmaMicro: long, Methods: []string{BFGPU}, Settings: []string{withoutLoss, withoutPseudoLabels}, Seeds: at},
			Block{Datasets: []string{IMDB}, SigmaMicro: []int{5}, Methods: []string{BFGPU}, Settings: lambdas(), Seeds: at},
			Block{Datasets: []string{IMDBSentences}, Methods: everyMethod(), Seeds: at},
		)
	}
	return blocks
}

// lambdas is the paper's sensitivity analysis; its text says IMDB, its captions SST-2.
func lambdas() []string {
	var out []string
	for _, name := range []string{"lambda-pu", "lambda-pseudo"} {
		for value := 1; value <= 5; value++ {
			out = append(out, fmt.Sprintf("%s=%d", name, value))
		}
	}
	return out
}

// BestBaselines returns the n coarse-label methods, other than BFGPU and the macro supervised one, with the largest mean
// AvgAcc among the records of a data set at sigma_micro 2 and sigma_macro 1; ties go by the order of Methods.
func BestBaselines(records []Record, dataset, backbone string, n int) []string {
	sums, counts := map[string]float64{}, map[string]float64{}
	for _, r := range records {
		s := r.Spec
		if s.Dataset == dataset && s.Backbone == backbone && s.SigmaMicro == 2 && s.SigmaMacro == 1 && s.Bags == 0 {
			sums[s.Method] += r.Metrics[avgAcc]
			counts[s.Method]++
		}
	}
	all := without(Methods(), BFGPU, Macro, Oracle)
	all = slices.DeleteFunc(all, func(m string) bool { return counts[m] == 0 })
	slices.SortStableFunc(all, func(a, b string) int {
		mean := func(m string) float64 { return sums[m] / counts[m] }
		return cmp.Compare(mean(b), mean(a))
	})
	return all[:min(n, len(all))]
}
