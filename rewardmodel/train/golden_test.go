package train

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"assay/rewardmodel"
)

// goldenCase is a mini-batch of testdata/heads.json (testdata/make_heads.py): whole bags one after another, with the
// logits of their instances, and PyTorch's loss and gradients. Package baseline tests those with features.
type goldenCase struct {
	Method    string
	Sizes     []int
	Violation []bool
	Input     [][]float32
	Value     float64
	Grad      [][]float64

	Loss       LossKind
	Weights    Weights
	Normaliser Normaliser
	Epoch      int
}

const goldenSigma = 2.5

// TestEveryLossEqualsPyTorch compares the value of every method's loss, and its gradients with respect to the logits, with
// autograd.
func TestEveryLossEqualsPyTorch(t *testing.T) {
	data, err := os.ReadFile("testdata/heads.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []goldenCase
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	var seen []string
	for i, c := range cases {
		if c.Method != "plain" && !slices.Contains(Methods(), c.Method) {
			continue
		}
		d := &Data{}
		for b, size := range c.Sizes {
			d.Bags = append(d.Bags, Bag{Violation: c.Violation[b], Instances: make([][]int32, size)})
		}
		e := newEpoch(d, len(c.Input))
		value, grad := c.run(t, e)
		if !near(value, c.Value, 1e-6) {
			t.Errorf("case %d (%s): loss %v, want %v", i, c.Method, value, c.Value)
		}
		for k := range c.Grad {
			for j, want := range c.Grad[k] {
				if !near(float64(grad[k][j]), want, 1e-6) {
					t.Errorf("case %d (%s): gradient [%d][%d] is %v, want %v", i, c.Method, k, j, grad[k][j], want)
				}
			}
		}
		seen = append(seen, c.Method)
	}
	for _, name := range Methods() {
		if !slices.Contains(seen, name) && name != "oracle" { // of the case "plain"
			t.Errorf("no case of %s", name)
		}
	}
}

func near(got, want, tolerance float64) bool {
	return math.Abs(got-want) <= tolerance*math.Max(1, math.Abs(want))
}

// run computes the loss of the case with its method.
func (c goldenCase) run(t *testing.T, e *Epoch) (value float64, grad [][]float32) {
	all := e.All()
	batch, starts := e.members(all)
	ofLogits := func(loss aspectLoss) (float64, [][]float32) {
		logits := make([][2]float32, len(c.Input))
		for i, z := range c.Input {
			logits[i] = [2]float32(z)
		}
		value, grads := loss(logits)
		for _, g := range grads {
			grad = append(grad, g[:])
		}
		return value, grad
	}
	switch c.Method {
	case "plain":
		return ofLogits(plain(c.Loss, e.violations(batch), 0.5))
	case "bfgpu":
		m := BFGPU{Weights: c.Weights, Loss: c.Loss, Normaliser: c.Normaliser, SigmaMicro: goldenSigma}
		return ofLogits(m.loss(e, batch))
	case "upu", "nnpu", "balancedpu":
		return ofLogits(PU{Risk: PURisk(c.Method), SigmaMicro: goldenSigma}.loss(e, batch))
	case "robustpu":
		return c.epochOfRobustPU(t, e)
	case "mil-max", "mil-topk":
		m, err := NewMethod(c.Method, Settings{})
		if err != nil {
			t.Fatal(err)
		}
		return ofLogits(func(logits [][2]float32) (float64, [][2]float32) { return m.(Pooling).loss(e, all, starts, logits) })
	}
	t.Fatalf("method %q is unknown", c.Method)
	return 0, nil
}

// epochOfRobustPU runs an epoch of one mini-batch on a learner with the logits of the case: the sequence of
// instance i is the token i.
func (c goldenCase) epochOfRobustPU(t *testing.T, e *Epoch) (value float64, grad [][]float32) {
	id := int32(0)
	for _, b := range e.Data.Bags {
		for k := range b.Instances {
			b.Instances[k] = []int32{id}
			id++
		}
	}
	l := &fixed{logits: c.Input, grad: make([][]float32, len(c.Input))}
	e.Number, e.RNG = c.Epoch, rand.New(rand.NewPCG(1, 2))
	e.ctx, e.learner, e.progress, e.report = t.Context(), aspectLearner{learner: l}, &Progress{}, func(Progress) {}
	if err := (RobustPU{}).Epoch(e); err != nil {
		t.Fatal(err)
	}
	return l.value, l.grad
}

// fixed is a Learner with given logits for each token, which records the loss and the gradient of a step.
type fixed struct {
	linear
	logits [][]float32
	value  float64
	grad   [][]float32
}

func (l *fixed) Logits(batch []rewardmodel.Sequence) ([][]float32, error) {
	out := make([][]float32, len(batch))
	for i, seq := range batch {
		out[i] = l.logits[seq.IDs[0]]
	}
	return out, nil
}

func (l *fixed) Step(batch []rewardmodel.Sequence, _ float64, loss Loss) (float64, error) {
	logits, _ := l.Logits(batch)
	value, grads := loss(logits)
	for i, seq := range batch {
		l.grad[seq.IDs[0]] = grads[i]
	}
	l.value = value
	return value, nil
}
