package encoder

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"assay/rewardmodel/checkpoint"
)

// The buckets of v3 equal those of transformers, for 256 buckets and up to 512 positions.
func TestBuckets(t *testing.T) {
	out := buckets(checkpoint.Disentangled{Relative: true, Buckets: 256, MaxRelative: 512}, 512)
	for distance, want := range map[int]int{0: 0, 1: 1, 127: 127, 128: 128, 129: 129, 130: 130, 200: 169, 300: 207, 511: 255} {
		if out[distance] != want {
			t.Errorf("distance %d is in bucket %d, want %d", distance, out[distance], want)
		}
	}
	for distance, bucket := range buckets(checkpoint.Disentangled{Relative: true, MaxRelative: 4}, 9) {
		if bucket != distance {
			t.Errorf("without buckets, distance %d became %d", distance, bucket)
		}
	}
}

// stepsGolden is the result of steps of torch.optim.Adam on a tiny model; see testdata/make_deberta.py.
type stepsGolden struct {
	Losses  []float64 `json:"losses"`
	Tensors map[string]struct {
		Gradient []float64 `json:"gradient"` // of the first step
		Weights  []float64 `json:"weights"`  // after the last
	} `json:"tensors"`
}

func TestDebertaStepsEqualPyTorch(t *testing.T) { compareSteps(t, "testdata/deberta_steps.json") }

// compareSteps compares loss, gradients and weights of three steps with PyTorch.
func compareSteps(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var golden map[string]stepsGolden
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	r := newRuntime(t)
	zero := 0.0
	for name, want := range golden {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("../checkpoint/testdata", name)
			l := newLearner(t, r, dir, LearnerOptions{Precision: FP32, Dropout: &zero})
			batch := readGolden(t, dir).sequences()
			for step, loss := range want.Losses {
				if got := steps(t, l, batch, 1); math.Abs(got-loss) > 1e-5 {
					t.Errorf("step %d: loss %v, want %v", step, got, loss)
				}
				if step == 0 {
					checkGradients(t, l, want)
				}
			}
			checkWeights(t, l, want)
		})
	}
}

// checkGradients reads the gradient of the first step from Adam's first moment, which is a tenth of it.
func checkGradients(t *testing.T, l *Learner, want stepsGolden) {
	t.Helper()
	seen := 0
	for i, p := range l.params {
		all := readTensor(t, l, func(l *Learner) ([]float32, error) { return l.read(l.adam.moments[i].first, elements(p.tensor)) })
		for part, name := range p.names {
			w, ok := want.Tensors[name]
			if !ok {
				continue
			}
			seen++
			size := len(all) / len(p.names)
			for k, g := range all[part*size : (part+1)*size] {
				if d := math.Abs(float64(g)/(1-beta1) - w.Gradient[k]); !(d < 1e-5) {
					t.Fatalf("%s: gradient[%d] is %v, want %v", name, k, float64(g)/(1-beta1), w.Gradient[k])
				}
			}
		}
	}
	if seen != len(want.Tensors) {
		t.Errorf("%d of %d tensors compared", seen, len(want.Tensors))
	}
}

// checkWeights compares weights after the steps. Adam divides a gradient by its magnitude, which amplifies the rounding
// of gradients near zero; those weights are skipped.
func checkWeights(t *testing.T, l *Learner, want stepsGolden) {
	t.Helper()
	compared, total := 0, 0
	for _, p := range l.params {
		all := readTensor(t, l, func(l *Learner) ([]float32, error) { return l.read(p.tensor, elements(p.tensor)) })
		for part, name := range p.names {
			w, ok := want.Tensors[name]
			if !ok {
				continue
			}
			size := len(all) / len(p.names)
			for k, x := range all[part*size : (part+1)*size] {
				total++
				if math.Abs(w.Gradient[k]) < 1e-3 && w.Gradient[k] != 0 {
					continue
				}
				compared++
				if d := math.Abs(float64(x) - w.Weights[k]); !(d < 1e-5) {
					t.Fatalf("%s: weight[%d] is %v, want %v", name, k, x, w.Weights[k])
				}
			}
		}
	}
	if compared < total/2 {
		t.Errorf("only %d of %d weights have a sufficient gradient", compared, total)
	}
}

func readTensor(t *testing.T, l *Learner, read func(*Learner) ([]float32, error)) (values []float32) {
	t.Helper()
	err := l.runtime.do(func() (err error) {
		defer withoutGradients()()
		values, err = read(l)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func TestDebertaLearns(t *testing.T) { learns(t, "deberta-v3", "deberta-v2", "deberta-model") }

// learns checks that training with all kinds of dropout lowers the loss, and that the written checkpoint has the same
// scores.
func learns(t *testing.T, names ...string) {
	t.Helper()
	r := newRuntime(t)
	for _, name := range names {
		dir := filepath.Join("../checkpoint/testdata", name)
		for _, p := range []Precision{FP32, BF16} {
			l := newLearner(t, r, dir, LearnerOptions{Precision: p})
			batch := readGolden(t, dir).sequences()
			first := steps(t, l, batch, 1)
			if last := steps(t, l, batch, 150); !(last < first/2) {
				t.Errorf("%s %s: loss went from %v to %v", name, p, first, last)
			}
			tensors, err := l.Tensors(checkpoint.F32)
			if err != nil {
				t.Fatal(err)
			}
			out := filepath.Join(t.TempDir(), "out")
			if err := checkpoint.Write(out, l.Config(), checkpoint.Manifest{Version: "test", Threshold: 0.5}, tensors); err != nil {
				t.Fatal(err)
			}
			got, err := loadModel(t, r, out, p).Logits(batch)
			if err != nil {
				t.Fatal(err)
			}
			near(t, name, got, logits(t, l, batch), map[Precision]float64{FP32: 1e-5, BF16: 0.15}[p])
		}
	}
}
