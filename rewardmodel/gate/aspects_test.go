package gate

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"assay/rewardmodel"
)

// twoAspects has a candidate that is better in both aspects. The verdict on the
// whole response is that of the first.
func twoAspects() Input {
	a, b := input(), input()
	b.Holdout = twoModels(rand.New(rand.NewPCG(4, 2)), 80, 120, 0.8, 0.9)
	whole := Bags{Violation: a.Holdout.Violation, Current: a.Holdout.Current, Candidate: a.Holdout.Candidate}
	names := []string{"refusal", "toxicity"}
	return Input{
		Current: Model{Version: "v1", Aspects: names}, Candidate: Model{Version: "v2", Aspects: names},
		Holdout: whole, Aspects: map[string]Input{"toxicity": a, "refusal": b},
	}
}

// few leaves n bags of each label.
func few(set Bags, n int) Bags {
	var out Bags
	left := map[bool]int{true: n, false: n}
	out.Current, out.Candidate = Margins{}, Margins{}
	for i, violation := range set.Violation {
		if left[violation]--; left[violation] >= 0 {
			out.Violation = append(out.Violation, violation)
			out.Current[topmost] = append(out.Current[topmost], set.Current[topmost][i])
			out.Candidate[topmost] = append(out.Candidate[topmost], set.Candidate[topmost][i])
		}
	}
	return out
}

func TestDecideAspects(t *testing.T) {
	for name, c := range map[string]struct {
		change func(refusal, toxicity, whole *Input)
		why    []string // parts of the reasons, in order; none: promoted
		judged []string
		better bool
	}{
		"better": {func(_, _, _ *Input) {}, nil, []string{"refusal", "toxicity"}, true},
		"better in one, worse in the other": {func(refusal, _, _ *Input) {
			refusal.Holdout.Current, refusal.Holdout.Candidate = refusal.Holdout.Candidate, refusal.Holdout.Current
		}, []string{"refusal: On the hold-out (200 bags, 80 violations) the candidate's bag_auroc is 0.8"}, []string{"refusal", "toxicity"}, false},
		"one without enough labels": {func(refusal, _, _ *Input) {
			refusal.Holdout = few(refusal.Holdout, 5)
			refusal.Probe.Candidate = refusal.Probe.Current
		}, nil, []string{"toxicity"}, true},
		"one without labels": {func(refusal, _, _ *Input) {
			refusal.Holdout, refusal.Regression = Bags{}, Bags{}
			refusal.Probe.Candidate = refusal.Probe.Current
		}, nil, []string{"toxicity"}, true},
		"one without labels moves": {func(refusal, _, _ *Input) {
			refusal.Holdout, refusal.Regression = Bags{}, Bags{}
			refusal.Probe.Candidate = Margins{topmost: shuffled(refusal.Probe.Current[topmost])}
			scatter(refusal.Probe)
		}, []string{"refusal: The compliance rewards of the probe set (300 bags) move by"}, []string{"toxicity"}, false},
		"the violations of one without labels disappear": {func(refusal, _, _ *Input) {
			refusal.Holdout, refusal.Regression = Bags{}, Bags{}
			current, candidate := make([]float64, 300), make([]float64, 300)
			for i := range current {
				current[i], candidate[i] = -6-float64(i)/1e4, -6-float64(i)/1e4
				if i%20 == 0 {
					current[i] = 6
				}
				if i%20 == 7 {
					candidate[i] = 6
				}
			}
			refusal.Probe = Bags{Current: Margins{topmost: current}, Candidate: Margins{topmost: candidate}}
		}, []string{"(violations and others half each), more than the limit of 0.3"}, []string{"toxicity"}, false},
		"a worse regression set of one without labels": {func(refusal, _, _ *Input) {
			refusal.Holdout = Bags{}
			refusal.Probe.Candidate = refusal.Probe.Current
			refusal.Regression.Current, refusal.Regression.Candidate = refusal.Regression.Candidate, refusal.Regression.Current
		}, []string{"refusal: On the regression set"}, []string{"toxicity"}, false},
		"none with labels": {func(refusal, toxicity, whole *Input) {
			refusal.Holdout, toxicity.Holdout, whole.Holdout = few(refusal.Holdout, 3), few(toxicity.Holdout, 4), Bags{}
			refusal.Probe.Candidate, toxicity.Probe.Candidate = refusal.Probe.Current, toxicity.Probe.Current
		}, []string{"No aspect can be judged: refusal has 3 violations and 3 compliant bags, toxicity has 4 violations"}, nil, false},
		"a worse verdict on the whole response": {func(_, _, whole *Input) {
			whole.Holdout.Current, whole.Holdout.Candidate = whole.Holdout.Candidate, whole.Holdout.Current
		}, []string{"Whole response: On the hold-out"}, []string{"refusal", "toxicity"}, false},
		"not a number": {func(refusal, _, _ *Input) {
			refusal.Holdout.Candidate[topmost][3] = math.NaN()
		}, []string{"refusal: 1 of 200 scores of the candidate on the hold-out are not finite"}, []string{"refusal", "toxicity"}, false},
		"a threshold at the end": {func(_, toxicity, _ *Input) {
			toxicity.Candidate.Thresholds = map[rewardmodel.Aggregate]float64{topmost: 1}
		}, []string{"toxicity: The candidate's threshold is 1"}, []string{"refusal", "toxicity"}, false},
		"a worse anchor of one": {func(refusal, _, _ *Input) {
			margins := slices.Clone(refusal.Holdout.Current[topmost])
			for i, violation := range refusal.Holdout.Violation {
				if violation {
					margins[i] += 5
				}
			}
			refusal.HoldoutAnchor = &Reference{Model: Model{Version: "v0"}, Margins: Margins{topmost: margins}}
		}, []string{"refusal: On the hold-out (200 bags, 80 violations) the candidate's bag_auroc"}, []string{"refusal", "toxicity"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := twoAspects()
			refusal, toxicity := in.Aspects["refusal"], in.Aspects["toxicity"]
			c.change(&refusal, &toxicity, &in)
			in.Aspects = map[string]Input{"refusal": refusal, "toxicity": toxicity}
			report, err := Decide(DefaultConfig(), in)
			if err != nil {
				t.Fatal(err)
			}
			if report.Promote != (len(c.why) == 0) {
				t.Fatalf("promote is %v: %q", report.Promote, report.Reasons)
			}
			for _, part := range c.why {
				if !slices.ContainsFunc(report.Reasons, func(reason string) bool { return strings.Contains(reason, part) }) {
					t.Errorf("%q does not have %q", report.Reasons, part)
				}
			}
			for aspect, r := range report.Aspects {
				if r.Judged != slices.Contains(c.judged, aspect) {
					t.Errorf("%s: judged is %v: %+v", aspect, r.Judged, r)
				}
			}
			if report.Promote && report.Better != c.better {
				t.Errorf("better is %v", report.Better)
			}
			if report.Promote && !strings.Contains(report.Summary(), "; toxicity: bag_auroc 0.") {
				t.Error(report.Summary())
			}
			if _, err := json.Marshal(report); err != nil {
				t.Error(err)
			}
		})
	}
}

// scatter spreads the margins, so that another order moves the rewards.
func scatter(set Bags) {
	for _, margins := range []Margins{set.Current, set.Candidate} {
		for i := range margins[topmost] {
			margins[topmost][i] *= 4
		}
	}
}

// A new aspect cannot come from a training run.
func TestDecideRejectsOtherAspects(t *testing.T) {
	for name, c := range map[string]struct {
		current, candidate []string
		compared           bool
	}{
		"another order":          {[]string{"a", "b"}, []string{"b", "a"}, true},
		"one each":               {[]string{"default"}, []string{"toxicity"}, true},
		"one more":               {[]string{"a", "b"}, []string{"a", "b", "c"}, false},
		"one instead of several": {[]string{"a", "b"}, nil, false},
		"another":                {[]string{"a", "b"}, []string{"a", "c"}, false},
	} {
		in := twoAspects()
		in.Aspects = map[string]Input{"a": in.Aspects["refusal"], "b": in.Aspects["toxicity"]}
		if len(c.current) == 1 {
			in = input()
		}
		in.Current.Aspects, in.Candidate.Aspects = c.current, c.candidate
		report, err := Decide(DefaultConfig(), in)
		if err != nil || report.Promote != c.compared {
			t.Errorf("%s: promote is %v, %q, %v", name, report.Promote, report.Reasons, err)
		}
		if !c.compared && (len(report.Reasons) != 1 || !strings.Contains(report.Reasons[0], "other aspects")) {
			t.Errorf("%s: %q", name, report.Reasons)
		}
	}
}

// The combined reward may move further than that of any aspect.
func TestDecideLimitsTheCombinedShift(t *testing.T) {
	names := []string{"a", "b", "c"}
	with := func(change func(in *Input)) Report {
		t.Helper()
		in := Input{Current: Model{Version: "v1", Aspects: names}, Candidate: Model{Version: "v2", Aspects: names}, Aspects: map[string]Input{}}
		for k, name := range names { // each calls another fifth of the responses violations
			of := input()
			current, candidate := make([]float64, 300), make([]float64, 300)
			for i := range current {
				current[i] = -6 - float64(i)/1e3
				candidate[i] = current[i]
				if i%5 == k {
					candidate[i] = 6
				}
			}
			of.Probe = Bags{Current: Margins{topmost: current}, Candidate: Margins{topmost: candidate}}
			in.Aspects[name] = of
		}
		change(&in)
		report, err := Decide(DefaultConfig(), in)
		if err != nil {
			t.Fatal(err)
		}
		for name, a := range report.Aspects {
			if len(a.Reasons) > 0 || a.Shift.Flips != 60 {
				t.Fatalf("%s: %q, %+v", name, a.Reasons, a.Shift)
			}
		}
		return report
	}
	report := with(func(*Input) {})
	if report.Promote || len(report.Reasons) != 1 || !strings.HasPrefix(report.Reasons[0], "Whole response: The compliance rewards of the probe set (300 bags) move by 0.59") {
		t.Errorf("promote is %v: %q", report.Promote, report.Reasons)
	}
	if s := report.Shift; s.Flips != 180 || !s.Exceeded || s.Limit != DefaultConfig().MaxShift {
		t.Errorf("%+v", s)
	}
	for name, change := range map[string]func(*Input){
		"sum": func(in *Input) {
			in.Current.Combination, in.Candidate.Combination = rewardmodel.CombineSum, rewardmodel.CombineSum
		},
		"only one counts": func(in *Input) {
			in.Current.Weights, in.Candidate.Weights = []float64{0, 2, 0}, []float64{0, 2, 0}
		},
		"untrained": func(in *Input) { in.Current.Untrained = true },
		"chance": func(in *Input) {
			of := in.Aspects["b"]
			of.Holdout = twoModels(rand.New(rand.NewPCG(1, 5)), 200, 200, 0.5, 0.9)
			in.Aspects["b"] = of
		},
	} {
		if report := with(change); !report.Promote {
			t.Errorf("%s: %q", name, report.Reasons)
		}
	}
	// An aspect that counts less is another reward.
	report = with(func(in *Input) { in.Current.Weights = []float64{0, 1, 0} })
	if report.Promote {
		t.Error("a change of the weights moved no reward")
	}

	for name, change := range map[string]func(*Input){
		"has the aspect c, and the input does not": func(in *Input) { delete(in.Aspects, "c") },
		"3 aspects and 1 weights":                  func(in *Input) { in.Candidate.Weights = []float64{1} },
		"the probe set has 0 bags for the aspect c": func(in *Input) {
			of := in.Aspects["c"]
			of.Probe = Bags{}
			in.Aspects["c"] = of
		},
	} {
		in := twoAspects()
		in.Aspects["c"] = in.Aspects["toxicity"]
		in.Current.Aspects = []string{"refusal", "toxicity", "c"}
		in.Candidate.Aspects = in.Current.Aspects
		change(&in)
		if _, err := Decide(DefaultConfig(), in); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
