package report

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"assay/rewardmodel/eval"
)

// The verdicts on a baseline.
const (
	Better    = "better"    // the interval of the difference is above 0
	Worse     = "worse"     // it is below 0
	Undecided = "undecided" // it contains 0
)

// Comparison compares the AUROC of the model with that of a baseline on the same responses.
type Comparison struct {
	Set        string     `json:"set"`
	Baseline   string     `json:"baseline"`
	AUROC      float64    `json:"auroc"`      // of the baseline
	Difference float64    `json:"difference"` // the model's minus the baseline's
	Interval   [2]float64 `json:"interval"`   // 95 %, by a paired bootstrap
	Model      string     `json:"model_is"`   // Better, Worse or Undecided
}

// lengthBaseline is the name of the baseline that knows only the number of words.
const lengthBaseline = "length"

// compare compares the model with each baseline on each set with both labels.
func compare(in Input) (out []Comparison) {
	length := Baseline{Name: lengthBaseline, Scores: map[string][]float64{}}
	for _, s := range in.Sets {
		for _, b := range s.Bags {
			length.Scores[s.Name] = append(length.Scores[s.Name], float64(words(b.Text)))
		}
	}
	for _, s := range in.Sets {
		model, truth := ranking(s.Bags)
		auroc := s.AUROC()
		if math.IsNaN(auroc) {
			continue
		}
		for _, baseline := range append(slices.Clone(in.Baselines), length) {
			values := slices.Clone(baseline.Scores[s.Name])
			if baseline.Name == lengthBaseline && eval.AUROC(values, truth) < 0.5 {
				for i := range values { // it may know whether the violations of the set are the shorter ones
					values[i] = -values[i]
				}
			}
			c := Comparison{Set: s.Name, Baseline: baseline.Name, AUROC: eval.AUROC(values, truth), Model: Undecided}
			c.Difference = auroc - c.AUROC
			c.Interval = differenceInterval(model, values, truth, in.Resamples, in.Seed)
			switch {
			case c.Interval[0] > 0:
				c.Model = Better
			case c.Interval[1] < 0:
				c.Model = Worse
			}
			out = append(out, c)
		}
	}
	return out
}

// differenceInterval is the 95 % interval of the difference of the AUROC of a and b; without resamples, anything.
func differenceInterval(a, b []float64, truth []bool, resamples int, seed uint64) [2]float64 {
	if resamples == 0 {
		return [2]float64{-1, 1}
	}
	var sampled []float64
	x, y, labels := make([]float64, len(a)), make([]float64, len(a)), make([]bool, len(a))
	for draw := range eval.Resamples(truth, resamples, seed) {
		for i, from := range draw {
			x[i], y[i], labels[i] = a[from], b[from], truth[from]
		}
		sampled = append(sampled, eval.AUROC(x, labels)-eval.AUROC(y, labels))
	}
	slices.Sort(sampled)
	return [2]float64{stat.Quantile(0.025, stat.LinInterp, sampled, nil), stat.Quantile(0.975, stat.LinInterp, sampled, nil)}
}

// BaselinesOf divides the scores of each baseline, of the responses of all sets in order, among the sets. The error names a
// baseline with a wrong number of scores.
func BaselinesOf(sets []Set, scores map[string][]float64) (out []Baseline, err error) {
	for _, name := range slices.Sorted(maps.Keys(scores)) {
		b, rest := Baseline{Name: name, Scores: map[string][]float64{}}, scores[name]
		for _, s := range sets {
			if len(s.Bags) > len(rest) {
				return nil, fmt.Errorf("%s has %d scores less than there are responses of %s", name, len(s.Bags)-len(rest), s.Name)
			}
			b.Scores[s.Name], rest = rest[:len(s.Bags)], rest[len(s.Bags):]
		}
		out = append(out, b)
	}
	return out, nil
}
