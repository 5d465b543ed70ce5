package train

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"assay/rewardmodel"
	"assay/rewardmodel/logistic"
)

func testConfig(m Method) Config {
	return Config{Method: m, Epochs: 4, Batch: 16, Rate: 0.5, Seed: 1, Threshold: OnePerBag}
}

// TestRunFindsTheWitness trains every variant of BFGPU on coarse labels and checks the witness.
func TestRunFindsTheWitness(t *testing.T) {
	for _, weights := range []Weights{WeightsBatch, WeightsPaper} {
		for _, loss := range []LossKind{CrossEntropy, Sigmoid} {
			for _, during := range []bool{true, false} {
				m := BFGPU{Weights: weights, Loss: loss, Normaliser: NormaliserSum, PULoss: true, PseudoLabels: true, RecordDuring: during}
				data, witnesses := syntheticBags(120, 4)
				l := newLinear()
				result, err := Run(t.Context(), l, data, testConfig(m))
				if err != nil {
					t.Fatal(err)
				}
				hits, flagged := 0, 0
				for i, b := range data.Bags {
					logits := l.pairs(b.Instances)
					witness := 0
					for k := range logits {
						if margin(logits[k]) > margin(logits[witness]) {
							witness = k
						}
					}
					if witness == witnesses[i] {
						hits++
					}
					if logistic.Sigmoid(margin(logits[witness])) > result.Thresholds[rewardmodel.AggregateMax] {
						flagged++
					}
				}
				if hits < 114 || flagged < 100 || flagged > 140 {
					t.Errorf("%+v: %d of 120 witnesses, %d bags flagged", m, hits, flagged)
				}
				if math.Abs(result.SigmaMicro-4) > 1e-9 || math.Abs(result.SigmaMacro-1) > 1e-9 {
					t.Errorf("estimated sigma_micro %v and sigma_macro %v, want 4 and 1", result.SigmaMicro, result.SigmaMacro)
				}
			}
		}
	}
}

// TestThresholdsFlagTheirNumber counts what exceeds each kind of threshold: 60 instances of violating bags, 60 of all
// instances, or 60 bags, up to ties.
func TestThresholdsFlagTheirNumber(t *testing.T) {
	data, _ := syntheticBags(60, 4)
	for _, kind := range []Threshold{OnePerBag, Quantile, PerBag} {
		cfg := testConfig(DefaultBFGPU())
		cfg.Threshold = kind
		l := newLinear()
		result, err := Run(t.Context(), l, data, cfg)
		if err != nil {
			t.Fatal(err)
		}
		var inViolating, instances, bags int
		for _, b := range data.Bags {
			logits := l.pairs(b.Instances)
			flagged := false
			for _, z := range logits {
				if logistic.Sigmoid(margin(z)) > result.Thresholds[rewardmodel.AggregateMax] {
					instances++
					flagged = true
					if b.Violation {
						inViolating++
					}
				}
			}
			if flagged {
				bags++
			}
		}
		got := map[Threshold]int{OnePerBag: inViolating, Quantile: instances, PerBag: bags}[kind]
		if got < 50 || got > 62 {
			t.Errorf("%s flags %d, want 60", kind, got)
		}
	}
}

// pooled has these scores.
type pooled struct {
	Pooling
	scores []Score
}

func (m pooled) Score(*Network) ([]Score, error) { return m.scores, nil }

// The service compares the largest margin with the threshold, also where the method pools several.
func TestThresholdOfPooledBags(t *testing.T) {
	data := &Data{Bags: []Bag{{Violation: true}, {Violation: true}, {}, {}}}
	cfg := testConfig(pooled{Pooling{Top: 2}, []Score{{2, []float64{4, 0}}, {2, []float64{3, 1}}, {0.3, []float64{1.6, -1}}, {0.5, []float64{0.5, 0.5}}}})
	cfg.Threshold = PerBag
	result := Result{FittedOn: data}
	if err := cfg.judge(t.Context(), aspectLearner{newLinear(), 0}, &result); err != nil {
		t.Fatal(err)
	}
	if got := result.Thresholds[rewardmodel.AggregateMax]; got <= logistic.Sigmoid(1.6) || got >= logistic.Sigmoid(3) {
		t.Errorf("the threshold is %v, and does not divide the largest scores", got)
	}
}

// TestRunResumes stops a run in its third epoch and resumes it: weights and thresholds equal those of an uninterrupted run.
func TestRunResumes(t *testing.T) {
	data, _ := syntheticBags(40, 3)
	uninterrupted := newLinear()
	want, err := Run(t.Context(), uninterrupted, data, testConfig(DefaultBFGPU()))
	if err != nil {
		t.Fatal(err)
	}

	cfg := testConfig(DefaultBFGPU())
	cfg.State = filepath.Join(t.TempDir(), "state")
	ctx, cancel := context.WithCancel(t.Context())
	first := newLinear()
	first.stopAt, first.cancel = uninterrupted.steps*5/8, cancel
	if _, err := Run(ctx, first, data, cfg); !errors.Is(err, context.Canceled) {
		t.Fatalf("stopped run: %v", err)
	}
	second := newLinear()
	got, err := Run(t.Context(), second, data, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got.Resumed != 2 {
		t.Errorf("resumed after %d epochs, want 2", got.Resumed)
	}
	if !reflect.DeepEqual(second.Weights, uninterrupted.Weights) || !reflect.DeepEqual(got.Thresholds, want.Thresholds) {
		t.Error("the resumed run differs from the uninterrupted one")
	}
	if files, _ := filepath.Glob(filepath.Join(cfg.State, "*")); len(files) != 2 {
		t.Errorf("state directory has %v, want state.json and one epoch", files)
	}

	for name, change := range map[string]func(*Config){
		"rate": func(cfg *Config) { cfg.Rate /= 2 }, "hidden context": func(cfg *Config) { cfg.HideContext = 0.5 },
	} {
		other := cfg
		change(&other)
		if _, err := Run(t.Context(), newLinear(), data, other); err == nil {
			t.Errorf("the state of a run with another %s was loaded", name)
		}
	}
}

// TestPseudoLabelsKeepATrainedModel fine-tunes a trained model without the PU loss.
func TestPseudoLabelsKeepATrainedModel(t *testing.T) {
	data, witnesses := syntheticBags(60, 4)
	l := newLinear()
	if _, err := Run(t.Context(), l, data, testConfig(DefaultBFGPU())); err != nil {
		t.Fatal(err)
	}
	m := DefaultBFGPU()
	m.PULoss = false
	var stages []string
	cfg := testConfig(m)
	cfg.Report = func(p Progress) {
		if n := len(stages); n == 0 || stages[n-1] != p.Stage {
			stages = append(stages, p.Stage)
		}
	}
	if _, err := Run(t.Context(), l, data, cfg); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(stages, []string{"pseudo-labels"}) {
		t.Errorf("stages %v", stages)
	}
	hits := 0
	for i, b := range data.Bags {
		logits := l.pairs(b.Instances)
		for k := range logits {
			if witnesses[i] == k && margin(logits[k]) > 0 {
				hits++
			}
		}
	}
	if hits < 57 {
		t.Errorf("%d of 60 witness instances score as violations", hits)
	}
}

func TestRunRejects(t *testing.T) {
	good, _ := syntheticBags(4, 2)
	oneClass := &Data{Bags: []Bag{good.Bags[0]}}
	compliant := &Data{Bags: slices.DeleteFunc(slices.Clone(good.Bags), func(b Bag) bool { return b.Violation })}
	empty := &Data{Bags: append([]Bag{{}}, good.Bags...)}
	for name, c := range map[string]struct {
		data   *Data
		change func(*Config)
	}{
		"no epochs":     {good, func(c *Config) { c.Epochs = -1 }},
		"no batch":      {good, func(c *Config) { c.Batch = 0 }},
		"rate NaN":      {good, func(c *Config) { c.Rate = math.NaN() }},
		"final rate":    {good, func(c *Config) { c.RateMin = 1 }},
		"threshold":     {good, func(c *Config) { c.Threshold = "best" }},
		"weights":       {good, func(c *Config) { c.Method = BFGPU{Weights: "all", Loss: CrossEntropy} }},
		"loss":          {good, func(c *Config) { c.Method = BFGPU{Weights: WeightsBatch, Loss: "hinge"} }},
		"sigma":         {good, func(c *Config) { m := DefaultBFGPU(); m.SigmaMicro = -1; c.Method = m }},
		"no stage":      {good, func(c *Config) { c.Method = BFGPU{Weights: WeightsBatch, Loss: CrossEntropy} }},
		"one class":     {oneClass, func(*Config) {}},
		"false alarms":  {good, func(c *Config) { c.Threshold, c.FalseAlarms = FalseAlarms, 0.5 }},
		"no instances":  {good, func(c *Config) { c.Method, c.Threshold, c.FalseAlarms = wholeBags{}, FalseAlarms, 0.1 }},
		"no violations": {compliant, func(c *Config) { c.Threshold, c.FalseAlarms = FalseAlarms, 0.1 }},
		"empty bag":     {empty, func(*Config) {}},
		"no bag at all": {&Data{}, func(*Config) {}},
	} {
		cfg := testConfig(DefaultBFGPU())
		c.change(&cfg)
		if _, err := Run(t.Context(), newLinear(), c.data, cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestSingleInstanceBagsHaveConsistentLabels(t *testing.T) {
	data := &Data{Bags: []Bag{
		{Violation: true, Instances: [][]int32{{7}}},
		{Violation: false, Instances: [][]int32{{8}, {9}}},
	}}
	e := newEpoch(data, 4)
	e.RNG = rand.New(rand.NewPCG(0, 0))
	batches := pseudoBatches(e, e.blankScores())
	if len(batches) != 1 || len(batches[0]) != 2 {
		t.Fatalf("pseudo labels are %v, want 2 in one mini-batch", batches)
	}
	for _, l := range batches[0] {
		if l.violation != (l.bag == 0) {
			t.Errorf("instance %v is labeled violation=%v", l.ref, l.violation)
		}
	}
}
