package gate

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"assay/rewardmodel/eval"
)

// The metrics of resampled bags and the distances of rewards are those of
// scikit-learn and scipy.
func TestGolden(t *testing.T) {
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Truth              []bool
		Current, Candidate []float64
		Thresholds         [2]float64
		Draws              [][]int
		Differences        map[Metric][]float64
		Distance           Distance
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		for _, m := range Metrics() {
			got := differences(m, c.Truth, scored{c.Current, c.Thresholds[0]}, scored{c.Candidate, c.Thresholds[1]}, slices.Values(c.Draws))
			if want := c.Differences[m]; !slices.EqualFunc(got, want, near) {
				t.Errorf("case %d: %s differs by %v, want %v", i, m, got, want)
			}
		}
		was, is := compliance(negated(c.Current)), compliance(negated(c.Candidate))
		if got := distance(was, is); !near(got.MeanChange, c.Distance.MeanChange) || !near(got.KS, c.Distance.KS) ||
			!near(*got.Spearman, *c.Distance.Spearman) {
			t.Errorf("case %d: got %+v, want %+v", i, got, c.Distance)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// Resamples keep the number of bags of each label, and repeat with the seed.
func TestResamples(t *testing.T) {
	truth := []bool{true, false, false, true, false}
	var first [][]int
	for draw := range eval.Resamples(truth, 50, 3) {
		if n := count([]bool{truth[draw[0]], truth[draw[1]], truth[draw[2]], truth[draw[3]], truth[draw[4]]}); n != 2 {
			t.Fatalf("%v holds %d violations", draw, n)
		}
		first = append(first, slices.Clone(draw))
	}
	i := 0
	for draw := range eval.Resamples(truth, 50, 3) {
		if !slices.Equal(draw, first[i]) {
			t.Fatalf("draw %d is %v, was %v", i, draw, first[i])
		}
		i++
	}
}
