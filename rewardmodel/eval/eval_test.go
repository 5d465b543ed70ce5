package eval

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"slices"
	"testing"

	"assay/rewardmodel/bag"
)

type goldenCase struct {
	Threshold float64
	Bags      []struct {
		Violation  bool
		Violations []float64
		Gold       []bool
		Spans      [][2]int
		GoldSpans  [][2]int `json:"gold_spans"`
	}
	Want map[string]float64
}

func (c goldenCase) bags() []BagScores {
	out := make([]BagScores, len(c.Bags))
	for i, b := range c.Bags {
		out[i] = BagScores{Label: bag.Compliant, Violations: b.Violations, Gold: b.Gold, Spans: b.Spans, GoldSpans: b.GoldSpans}
		if b.Violation {
			out[i].Label = bag.Violation
		}
	}
	return out
}

func golden(t *testing.T) []goldenCase {
	t.Helper()
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []goldenCase
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

func TestMetricsEqualScikitLearn(t *testing.T) {
	for i, c := range golden(t) {
		report, err := Evaluate(c.bags(), c.Threshold, Bootstrap{})
		if err != nil {
			t.Fatal(err)
		}
		names := slices.Sorted(maps.Keys(report.Metrics))
		if want := slices.Sorted(maps.Keys(c.Want)); !slices.Equal(names, want) {
			t.Errorf("case %d has metrics %v, want %v", i, names, want)
		}
		for name, want := range c.Want {
			if got := report.Metrics[name]; math.Abs(got-want) > 1e-12 {
				t.Errorf("case %d: %s is %v, want %v", i, name, got, want)
			}
		}
	}
}

func TestBootstrap(t *testing.T) {
	c := golden(t)[0]
	how := Bootstrap{Resamples: 200, Seed: 7}
	report, err := Evaluate(c.bags(), c.Threshold, how)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Evaluate(c.bags(), c.Threshold, how)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(report.Intervals, again.Intervals) {
		t.Error("the same seed gives other intervals")
	}
	narrow, err := Evaluate(c.bags(), c.Threshold, Bootstrap{Resamples: 200, Seed: 7, Level: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range report.Metrics {
		wide, within := report.Intervals[name], narrow.Intervals[name]
		if !(0 <= wide[0] && wide[0] <= within[0] && within[0] <= within[1] && within[1] <= wide[1] && wide[1] <= 1) {
			t.Errorf("%s: %v at 0.95, %v at 0.5", name, wide, within)
		}
		// Resampling increases a calibration error, so it may be outside.
		if name != "ece" && (value < wide[0] || value > wide[1]) {
			t.Errorf("%s is %v, outside of %v", name, value, wide)
		}
	}
}

func TestBagsOfOneLabel(t *testing.T) {
	report, err := Evaluate([]BagScores{
		{Label: bag.Violation, Violations: []float64{0.2, 0.9}},
		{Label: bag.Violation},
	}, 0.5, Bootstrap{Resamples: 5})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"avg_acc", "bag_auprc", "brier", "ece", "f1_compliant", "f1_violation", "recall_violation"}
	if got := slices.Sorted(maps.Keys(report.Metrics)); !slices.Equal(got, want) {
		t.Errorf("metrics are %v, want %v", got, want)
	}
	if got := report.Metrics["avg_acc"]; got != 0.5 {
		t.Errorf("avg_acc is %v, want 0.5", got)
	}
}

func TestReportIsOneFlatObject(t *testing.T) {
	text, err := json.Marshal(Report{
		Metrics:   map[string]float64{"brier": 0.25, "avg_acc": 1},
		Intervals: map[string][2]float64{"avg_acc": {0.5, 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"avg_acc":1,"brier":0.25,"intervals":{"avg_acc":[0.5,1]}}`; string(text) != want {
		t.Errorf("got %s, want %s", text, want)
	}
}

func TestEvaluateRejects(t *testing.T) {
	good := BagScores{Label: bag.Violation, Violations: []float64{1}}
	for name, c := range map[string]struct {
		bags      []BagScores
		threshold float64
		how       Bootstrap
	}{
		"no bags":            {nil, 0.5, Bootstrap{}},
		"no label":           {[]BagScores{{Violations: []float64{1}}}, 0.5, Bootstrap{}},
		"NaN":                {[]BagScores{good, {Label: bag.Violation, Violations: []float64{math.NaN()}}}, 0.5, Bootstrap{}},
		"above one":          {[]BagScores{{Label: bag.Violation, Violations: []float64{1.5}}}, 0.5, Bootstrap{}},
		"gold marks":         {[]BagScores{{Label: bag.Violation, Violations: []float64{1}, Gold: []bool{true, false}}}, 0.5, Bootstrap{}},
		"spans":              {[]BagScores{{Label: bag.Violation, Violations: []float64{1}, Spans: [][2]int{}}}, 0.5, Bootstrap{}},
		"an empty span":      {[]BagScores{{Label: bag.Violation, Violations: []float64{1}, Spans: [][2]int{{3, 3}}}}, 0.5, Bootstrap{}},
		"a gold span back":   {[]BagScores{{Label: bag.Violation, GoldSpans: [][2]int{{3, 2}}}}, 0.5, Bootstrap{}},
		"NaN threshold":      {[]BagScores{good}, math.NaN(), Bootstrap{}},
		"level of one":       {[]BagScores{good}, 0.5, Bootstrap{Level: 1}},
		"negative resamples": {[]BagScores{good}, 0.5, Bootstrap{Resamples: -1}},
	} {
		if _, err := Evaluate(c.bags, c.threshold, c.how); !errors.Is(err, ErrInput) {
			t.Errorf("%s: got %v, want ErrInput", name, err)
		}
	}
}

func TestSpanOverlap(t *testing.T) {
	at := [][2]int{{0, 10}, {11, 21}, {22, 30}}
	for name, c := range map[string]struct {
		violations    []float64
		spans, gold   [][2]int
		iou, f1, best float64
	}{
		"the whole utterance":     {[]float64{0.1, 0.9, 0.2}, at, [][2]int{{11, 21}}, 1, 1, 1},
		"a word in it":            {[]float64{0.1, 0.9, 0.2}, at, [][2]int{{12, 17}}, 0.5, 2. / 3, 0.5},
		"another one":             {[]float64{0.9, 0.1, 0.2}, at, [][2]int{{12, 17}}, 0, 0, 0.5},
		"overlapping gold spans":  {[]float64{0.1, 0.9, 0.2}, at, [][2]int{{14, 17}, {12, 15}, {13, 14}}, 0.5, 2. / 3, 0.5},
		"gold in two utterances":  {[]float64{0.1, 0.9, 0.2}, at, [][2]int{{11, 21}, {22, 30}}, 10. / 18, 20. / 28, 10. / 18},
		"a tie shares":            {[]float64{0.9, 0.9, 0.2}, at, [][2]int{{11, 21}}, 0.5, 0.5, 1},
		"nothing but white space": {nil, [][2]int{}, [][2]int{{0, 1}}, 0, 0, 0},
	} {
		b := BagScores{Label: bag.Violation, Violations: c.violations, Spans: c.spans, GoldSpans: c.gold}
		got, best := spanOverlap(b)
		if !near(got.iou, c.iou) || !near(got.f1, c.f1) || !near(best, c.best) {
			t.Errorf("%s: got %+v and best %v, want %v, %v and %v", name, got, best, c.iou, c.f1, c.best)
		}
		if name == "overlapping gold spans" && c.gold[0] != [2]int{14, 17} {
			t.Errorf("%s: the caller's spans were changed to %v", name, c.gold)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-12 }

func TestComparisonsAreMeasuredApart(t *testing.T) {
	scored := func(comparison string, label bag.Label, violation float64) BagScores {
		return BagScores{Comparison: comparison, Label: label, Violations: []float64{violation}}
	}
	labeled := []BagScores{scored("", bag.Violation, 0.9), scored("", bag.Compliant, 0.2)}
	compared := []BagScores{
		scored("a", bag.Violation, 0.3), scored("a", bag.Compliant, 0.1), // right, though both comply
		scored("b", bag.Violation, 0.6), scored("b", bag.Compliant, 0.8), scored("b", bag.Compliant, 0.6), // wrong, and a tie
		scored("c", bag.Violation, 0.1), // of one label
	}
	alone, err := Evaluate(labeled, 0.5, Bootstrap{})
	if err != nil {
		t.Fatal(err)
	}
	both, err := Evaluate(append(labeled, compared...), 0.5, Bootstrap{Resamples: 200})
	if err != nil {
		t.Fatal(err)
	}
	const want = (1 + 0.25) / 2
	if got := both.Metrics[comparisonAccuracy]; got != want {
		t.Errorf("comparison accuracy %v, want %v", got, want)
	}
	if low, high := both.Intervals[comparisonAccuracy][0], both.Intervals[comparisonAccuracy][1]; low != 0.25 || high != 1 {
		t.Errorf("interval from %v to %v, want 0.25 to 1", low, high)
	}
	delete(both.Metrics, comparisonAccuracy)
	if !maps.Equal(both.Metrics, alone.Metrics) {
		t.Errorf("metrics %v, want those of the labeled bags, %v", both.Metrics, alone.Metrics)
	}
	only, err := Evaluate(compared, 0.5, Bootstrap{Resamples: 10})
	if err != nil || len(only.Metrics) != 1 {
		t.Errorf("of comparisons alone: %v, %v; want one metric", only.Metrics, err)
	}
}
