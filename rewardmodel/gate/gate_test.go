package gate

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"assay/rewardmodel"
	"assay/rewardmodel/calibration"
	"assay/rewardmodel/logistic"
)

const topmost = rewardmodel.AggregateMax

// scores samples the margins of models with the given AUROCs on labeled bags. The
// scores of a label are normally distributed with variance 1, and their correlation
// between models is 0.8.
func scores(rng *rand.Rand, violation []bool, aurocs ...float64) [][]float64 {
	const correlation = 0.8
	out := make([][]float64, len(aurocs))
	for _, is := range violation {
		shared := rng.NormFloat64() * math.Sqrt(correlation)
		for k, auroc := range aurocs {
			x := shared + rng.NormFloat64()*math.Sqrt(1-correlation)
			away := 2 * math.Erfinv(2*auroc-1)
			if is {
				x += away
			}
			out[k] = append(out[k], x-away/2)
		}
	}
	return out
}

// labels returns the labels of that many bags, shuffled.
func labels(violations, compliant int) []bool {
	out := make([]bool, 0, violations+compliant)
	for i := range violations + compliant {
		out = append(out, (i+1)*violations/(violations+compliant) > i*violations/(violations+compliant))
	}
	return out
}

// twoModels samples a set.
func twoModels(rng *rand.Rand, violations, compliant int, current, candidate float64) Bags {
	violation := labels(violations, compliant)
	drawn := scores(rng, violation, current, candidate)
	return Bags{Violation: violation, Current: Margins{topmost: drawn[0]}, Candidate: Margins{topmost: drawn[1]}}
}

// input has a candidate that is better, with all three sets.
func input() Input {
	rng := rand.New(rand.NewPCG(8, 9))
	probe := twoModels(rng, 150, 150, 0.8, 0.9)
	probe.Violation = nil
	return Input{
		Current: Model{Version: "v1"}, Candidate: Model{Version: "v2"},
		Holdout: twoModels(rng, 100, 100, 0.8, 0.9), Regression: twoModels(rng, 60, 60, 0.9, 0.95), Probe: probe,
	}
}

func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config, *Input)
		why    []string // parts of the reasons, in order; none: promoted
	}{
		"a better model": {func(*Config, *Input) {}, nil},
		"no regression set": {func(_ *Config, in *Input) {
			in.Regression = Bags{}
		}, nil},
		"the same model": {func(_ *Config, in *Input) {
			in.Holdout.Candidate, in.Regression.Candidate, in.Probe.Candidate = in.Holdout.Current, in.Regression.Current, in.Probe.Current
		}, nil},
		"flipped labels": {func(_ *Config, in *Input) {
			in.Holdout.Candidate = Margins{topmost: negated(in.Holdout.Candidate[topmost])}
		}, []string{"On the hold-out (200 bags, 100 violations) the candidate's bag_auroc is 0."}},
		"worse on the regression set alone": {func(_ *Config, in *Input) {
			in.Regression.Current, in.Regression.Candidate = in.Regression.Candidate, in.Regression.Current
		}, []string{"On the regression set (120 bags, 60 violations)"}},
		"few violations": {func(_ *Config, in *Input) {
			in.Holdout.Violation = make([]bool, 200)
			in.Holdout.Violation[3] = true
		}, []string{"The hold-out has 1 violations and 199 compliant bags, but 20 of each"}},
		"no hold-out": {func(_ *Config, in *Input) { in.Holdout = Bags{} }, []string{"The hold-out has 0 violations"}},
		"threshold at 0": {func(_ *Config, in *Input) {
			in.Candidate.Thresholds = map[rewardmodel.Aggregate]float64{topmost: 1e-6}
		}, []string{"threshold is 1e-06, at the end", "calls all 200 bags of the hold-out violations, of which 100 are", "move by"}},
		"threshold at 1": {func(_ *Config, in *Input) {
			in.Candidate.Thresholds = map[rewardmodel.Aggregate]float64{topmost: 1 - 1e-7}
		}, []string{"at the end", "calls all 200 bags of the hold-out compliant, of which 100 are violations", "move by"}},
		"a threshold far from 0.5 that separates": {func(_ *Config, in *Input) {
			for _, set := range []Bags{in.Holdout, in.Probe} {
				for i := range set.Candidate[topmost] {
					set.Candidate[topmost][i] -= 8
				}
			}
			in.Candidate.Thresholds = map[rewardmodel.Aggregate]float64{topmost: logistic.Sigmoid(-8)}
		}, nil},
		"constant": {func(_ *Config, in *Input) {
			for _, set := range []Bags{in.Holdout, in.Probe} {
				for i := range set.Candidate[topmost] {
					set.Candidate[topmost][i] = 1 + float64(i)*1e-6
				}
			}
		}, []string{"constant on the hold-out", "constant on the probe set", "calls all 200 bags", "On the hold-out", "move by"}},
		"indistinguishable": {func(_ *Config, in *Input) {
			scaleCandidate(in, 0.01)
			in.Current.Untrained = true // no calibration
		}, []string{"hardly tell responses apart: on the hold-out they are 0.50"}},
		"saturated": {func(_ *Config, in *Input) {
			scaleCandidate(in, 1000)
			in.Current.Untrained = true
		}, []string{"saturated: 9"}},
		"not a number": {func(_ *Config, in *Input) {
			in.Probe.Candidate[topmost][7] = math.NaN()
		}, []string{"1 of 300 scores of the candidate on the probe set are not finite"}},
		"another order": {func(_ *Config, in *Input) {
			in.Probe.Candidate[topmost] = shuffled(in.Probe.Candidate[topmost])
		}, []string{"The compliance rewards of the probe set (300 bags) move by 0.2"}},
		"another order, allowed": {func(cfg *Config, in *Input) {
			in.Probe.Candidate[topmost] = shuffled(in.Probe.Candidate[topmost])
			cfg.AllowShift = true
		}, nil},
		"another order than noise": {func(_ *Config, in *Input) {
			in.Probe.Candidate[topmost] = shuffled(in.Probe.Candidate[topmost])
			in.Current.Untrained = true
		}, nil},
		"another order than chance": {func(_ *Config, in *Input) {
			in.Probe.Candidate[topmost] = shuffled(in.Probe.Candidate[topmost])
			in.Holdout.Current[topmost] = shuffled(in.Holdout.Current[topmost])
		}, nil},
		"another order than chance, on few bags": {func(_ *Config, in *Input) {
			in.Probe.Candidate[topmost] = shuffled(in.Probe.Candidate[topmost])
			in.Holdout = twoModels(rand.New(rand.NewPCG(1, 2)), 20, 20, 0.6, 0.95) // in this sample 0.565
		}, []string{"move by"}},
		"a small probe set": {func(_ *Config, in *Input) {
			in.Probe.Current, in.Probe.Candidate = Margins{topmost: in.Probe.Current[topmost][:19]}, Margins{topmost: in.Probe.Candidate[topmost][:19]}
		}, []string{"The probe set has 19 responses, but 20 are needed"}},
		"few compliant bags in the regression set": {func(_ *Config, in *Input) {
			for i := range 90 {
				in.Regression.Violation[i] = true
			}
		}, []string{"The regression set has 105 violations and 15 compliant bags, but 20 of each"}},
		"worse than the best version": {func(_ *Config, in *Input) {
			in.HoldoutAnchor = anchor(in.Holdout, 0.97)
		}, []string{"On the hold-out (200 bags, 100 violations) the candidate's bag_auroc is 0.8"}},
		"worse than the original model": {func(_ *Config, in *Input) {
			in.Regression = twoModels(rand.New(rand.NewPCG(1, 4)), 60, 60, 0.7, 0.7)
			in.RegressionAnchor = anchor(in.Regression, 0.95)
		}, []string{"the original model v0's 0.9"}},
		"not worse than the anchors": {func(_ *Config, in *Input) {
			in.HoldoutAnchor, in.RegressionAnchor = anchor(in.Holdout, 0.8), anchor(in.Regression, 0.9)
		}, nil},
		"no probe set": {func(_ *Config, in *Input) { in.Probe = Bags{} }, []string{"The probe set has 0 responses, but 20 are needed"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, in := DefaultConfig(), input()
			cfg.Resamples = 200
			cfg.MaxShift = 0.15 // this sample moves by less than the default limit
			c.change(&cfg, &in)
			report, err := Decide(cfg, in)
			if err != nil {
				t.Fatal(err)
			}
			if report.Promote != (len(c.why) == 0) || len(report.Reasons) != len(c.why) {
				t.Fatalf("promote is %v, for %q; want %q", report.Promote, report.Reasons, c.why)
			}
			for i, part := range c.why {
				if !strings.Contains(report.Reasons[i], part) {
					t.Errorf("reason %d is %q, want %q", i, report.Reasons[i], part)
				}
			}
			if sum := report.Summary(); !strings.HasSuffix(sum, ".") || report.Promote != strings.Contains(sum, "bag_auroc 0.") {
				t.Errorf("the summary is %q", sum)
			}
			if in.Current.Untrained && report.Calibration != nil {
				t.Error("calibrated to an untrained model")
			}
			if _, err := json.Marshal(report); err != nil {
				t.Error(err)
			}
			again, err := Decide(cfg, in)
			if err != nil || !reflect.DeepEqual(again, report) {
				t.Errorf("the second report differs: %+v, %v", again, err)
			}
		})
	}
}

// anchor returns a model with the given AUROC on a set.
func anchor(set Bags, auroc float64) *Reference {
	drawn := scores(rand.New(rand.NewPCG(3, 3)), set.Violation, auroc)
	return &Reference{Model: Model{Version: "v0"}, Margins: Margins{topmost: drawn[0]}}
}

// The candidate replaces the best version only when it is shown to be better than
// that version, regardless of the current model.
func TestBetter(t *testing.T) {
	for name, c := range map[string]struct {
		current, candidate float64
		anchor             *float64
		want               bool
	}{
		"better than the current model":                     {0.8, 0.95, nil, true},
		"as good as the current model":                      {0.9, 0.9, nil, false},
		"better than the current model and as the anchor":   {0.7, 0.9, new(0.9), false},
		"better than the current model and than the anchor": {0.7, 0.95, new(0.8), true},
	} {
		in := input()
		in.Holdout = twoModels(rand.New(rand.NewPCG(1, 6)), 200, 200, c.current, c.candidate)
		if c.anchor != nil {
			in.HoldoutAnchor = anchor(in.Holdout, *c.anchor)
		}
		report, err := Decide(DefaultConfig(), in)
		if err != nil || report.Better != c.want {
			t.Errorf("%s: better is %v, %v; against the anchor %+v", name, report.Better, err, report.HoldoutAnchor)
		}
		if c.anchor != nil && (report.HoldoutAnchor.Against != "v0" || report.Holdout.Against != "v1") {
			t.Errorf("%s: compared with %q and %q", name, report.HoldoutAnchor.Against, report.Holdout.Against)
		}
	}
}

// The metrics of decisions depend on the threshold, AUROC does not.
func TestMetrics(t *testing.T) {
	for metric, promoted := range map[Metric]bool{BagAUROC: true, BagAUPRC: true, AvgAcc: false, F1Violation: false} {
		cfg, in := DefaultConfig(), input()
		cfg.Metric = metric
		in.Candidate.Thresholds = map[rewardmodel.Aggregate]float64{topmost: 0.8}
		report, err := Decide(cfg, in)
		if err != nil {
			t.Fatal(err)
		}
		if h := report.Holdout; h.Passed != promoted || h.Metric != metric || h.Current != h.Metrics[metric].Current ||
			h.Difference != h.Candidate-h.Current || !(h.Interval[0] <= h.Difference && h.Difference <= h.Interval[1]) {
			t.Errorf("%s: got %+v", metric, h)
		}
	}
}

// A candidate with the same order on another scale is mapped to the scale of the
// current model, and so is its successor.
func TestCalibrationKeepsRewardsComparable(t *testing.T) {
	in := input()
	in.Current.Calibration = rewardmodel.Calibration{topmost: {From: []float64{-1, 0, 1}, To: []float64{-2, 0, 3}}}
	in.Current.Thresholds = map[rewardmodel.Aggregate]float64{topmost: 0.5}
	in.Candidate.Thresholds = map[rewardmodel.Aggregate]float64{topmost: 1 / (1 + math.Exp(-0.7))}
	for i, m := range in.Probe.Current[topmost] {
		in.Probe.Candidate[topmost][i] = 0.7 + m*0.25
	}
	report, err := Decide(DefaultConfig(), in)
	if err != nil {
		t.Fatal(err)
	}
	s := report.Shift
	if s.Flips != 0 || s.Before.MeanChange < 0.2 || s.After.MeanChange > 0.02 || s.After.KS > 0.1 || *s.After.Spearman < 0.999 {
		t.Errorf("before %+v, after %+v, %d flips", s.Before, *s.After, s.Flips)
	}
	if err := report.Calibration.Validate(); err != nil {
		t.Error(err)
	}
}

// Every aggregate that was scored on the probe set is calibrated; one whose
// threshold has no log-odds is not.
func TestCalibratesEveryAggregate(t *testing.T) {
	in := input()
	for _, a := range rewardmodel.Aggregates() {
		in.Probe.Current[a], in.Probe.Candidate[a] = in.Probe.Current[topmost], in.Probe.Candidate[topmost]
	}
	in.Candidate.Thresholds = map[rewardmodel.Aggregate]float64{rewardmodel.AggregateNoisyOr: 1}
	report, err := Decide(DefaultConfig(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range rewardmodel.Aggregates() {
		if _, ok := report.Calibration[a]; ok != (a != rewardmodel.AggregateNoisyOr) {
			t.Errorf("%s: calibrated is %v", a, ok)
		}
	}
	in.Probe = Bags{Current: Margins{topmost: in.Probe.Current[topmost][:10]}, Candidate: Margins{topmost: in.Probe.Candidate[topmost][:10]}}
	if report, err = Decide(DefaultConfig(), in); err != nil || report.Calibration != nil || len(report.Notes) != 1 {
		t.Errorf("of ten bags: %+v, %q, %v", report.Calibration, report.Notes, err)
	}
}

// A degenerate candidate is never promoted.
func TestDegenerateIsNeverPromoted(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		in := Input{
			Holdout: twoModels(rng, MinBags+rng.IntN(30), MinBags+rng.IntN(30), 0.5+rng.Float64()*0.4, 0.99), // large enough
			Probe:   twoModels(rng, 1+rng.IntN(30), rng.IntN(30), 0.5, 0.9),
		}
		in.Current.Untrained = rng.IntN(2) == 0
		in.Candidate.Thresholds = map[rewardmodel.Aggregate]float64{topmost: 0.3 + 0.4*rng.Float64()}
		margins := in.Holdout.Candidate[topmost]
		switch rng.IntN(4) {
		case 0:
			margins[rng.IntN(len(margins))] = []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[rng.IntN(3)]
		case 1:
			for i := range margins {
				margins[i] = rng.Float64() * minSpread * 0.99
			}
		case 2:
			in.Candidate.Thresholds[topmost] = []float64{0, 1e-9, 1e-3, 1 - 1e-3, 1}[rng.IntN(5)]
		case 3:
			for i := range margins {
				margins[i] -= 100
			}
		}
		cfg := DefaultConfig()
		cfg.AllowShift, cfg.Margin, cfg.Resamples = true, 1, 100
		report, err := Decide(cfg, in)
		if err != nil || report.Promote {
			t.Fatalf("got %+v, %v", report, err)
		}
	}
}

func TestDecideRejects(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config, *Input)
		want   string
	}{
		"metric":     {func(cfg *Config, _ *Input) { cfg.Metric = "accuracy" }, `metric is "accuracy"`},
		"margin":     {func(cfg *Config, _ *Input) { cfg.Margin = -0.1 }, "margin is -0.1"},
		"regression": {func(cfg *Config, _ *Input) { cfg.RegressionMargin = 2 }, "regression margin is 2"},
		"confidence": {func(cfg *Config, _ *Input) { cfg.Confidence = 1 }, "confidence is 1"},
		"min bags":   {func(cfg *Config, _ *Input) { cfg.MinBags = 0 }, "min bags is 0"},
		"max shift":  {func(cfg *Config, _ *Input) { cfg.MaxShift = math.NaN() }, "max shift is NaN"},
		"resamples":  {func(cfg *Config, _ *Input) { cfg.Resamples = 10 }, "resamples is 10"},
		"anchor":     {func(_ *Config, in *Input) { in.HoldoutAnchor = anchor(in.Probe, 0.8) }, "the hold-out has 200 bags and 0 scores of its anchor v0"},
		"labels":     {func(_ *Config, in *Input) { in.Holdout.Violation = in.Holdout.Violation[1:] }, "the hold-out has 199 labels and 200 bags"},
		"scores":     {func(_ *Config, in *Input) { in.Probe.Candidate = Margins{} }, "for max 300 scores of the current model and 0"},
		"current":    {func(_ *Config, in *Input) { in.Probe.Current[topmost][0] = math.NaN() }, "current model on the probe set are not finite"},
		"threshold": {func(_ *Config, in *Input) {
			in.Candidate.Thresholds = map[rewardmodel.Aggregate]float64{"mean": 2}
		}, "the threshold of mean is 2"},
		"calibration": {func(_ *Config, in *Input) {
			in.Current.Calibration = rewardmodel.Calibration{topmost: calibration.Map{From: []float64{1}, To: []float64{1}}}
		}, "current model's calibration: max"},
	} {
		cfg, in := DefaultConfig(), input()
		c.change(&cfg, &in)
		if _, err := Decide(cfg, in); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func negated(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = -v
	}
	return out
}

func shuffled(values []float64) []float64 {
	out := append([]float64(nil), values...)
	rand.New(rand.NewPCG(2, 2)).Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// scaleCandidate multiplies the margins of the candidate: their order does not change.
func scaleCandidate(in *Input, by float64) {
	for _, set := range []Bags{in.Holdout, in.Regression, in.Probe} {
		for i := range set.Candidate[topmost] {
			set.Candidate[topmost][i] *= by
		}
	}
}
