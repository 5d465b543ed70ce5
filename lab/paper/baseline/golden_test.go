package baseline

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"assay/rewardmodel/train"
)

// goldenCase is a mini-batch of heads.json (make_heads.py) with a method of this package: whole bags one after another, with
// the features of their instances, and PyTorch's loss and gradients.
type goldenCase struct {
	Method     string
	Sizes      []int
	Violation  []bool
	Input      [][]float32
	Value      float64
	Grad       [][]float64
	Params     [][]float64
	ParamGrads [][]float64 `json:"param_grads"`

	Center            []float64 `json:"centre"`
	Hidden, Attention int
	Partner           []int
}

// TestEveryLossEqualsPyTorch compares the value of every method's loss, and its gradients with respect to the features and
// to the method's own parameters, with autograd.
func TestEveryLossEqualsPyTorch(t *testing.T) {
	data, err := os.ReadFile("../../../rewardmodel/train/testdata/heads.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []goldenCase
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	var seen []string
	for i, c := range cases {
		if !slices.Contains(Methods(), c.Method) {
			continue
		}
		value, grad, own := c.run(t)
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
		if len(own) != len(c.ParamGrads) {
			t.Fatalf("case %d (%s): %d blocks of parameters, want %d", i, c.Method, len(own), len(c.ParamGrads))
		}
		for k := range own {
			for j, want := range c.ParamGrads[k] {
				if !near(own[k].grad[j], want, 1e-6) {
					t.Errorf("case %d (%s): gradient of parameter [%d][%d] is %v, want %v", i, c.Method, k, j, own[k].grad[j], want)
				}
			}
		}
		seen = append(seen, c.Method)
	}
	for _, name := range Methods() {
		labeled := []string{"macro", "macro-over", "macro-under"} // with the loss of train.Epoch.StepLabeled
		if !slices.Contains(seen, name) && !slices.Contains(labeled, name) {
			t.Errorf("no case of %s", name)
		}
	}
}

func near(got, want, tolerance float64) bool {
	return math.Abs(got-want) <= tolerance*math.Max(1, math.Abs(want))
}

// run computes the loss of the case with its method; own are the method's parameters with their gradients.
func (c goldenCase) run(t *testing.T) (value float64, grad [][]float32, own []*block) {
	d, all := &train.Data{}, []int{}
	for b, size := range c.Sizes {
		d.Bags, all = append(d.Bags, train.Bag{Violation: c.Violation[b], Instances: make([][]int32, size)}), append(all, b)
	}
	violation := violations(d, members(d, all))
	ofBags := func(h *head, learn learnBag, build func(int, *rand.Rand)) (float64, [][]float32, []*block) {
		build(len(c.Input[0]), nil)
		c.set(t, h)
		value, grad := lossOfBags(d, h, learn, all, c.Input)
		return value, grad, h.blocks
	}
	switch c.Method {
	case "sad-macro":
		m := &SAD{Macro: true, sphere: sphere{c.Center}}
		value, grad = m.loss(c.Violation)(c.Input, 0)
	case "sad-micro":
		m := &SAD{sphere: sphere{c.Center}}
		value, grad = m.loss(violation)(c.Input, 0)
	case "svdd":
		m := &SVDD{sphere{c.Center}}
		value, grad = m.loss(c.Input, 0)
	case "mil-attention":
		m := &Attention{}
		return ofBags(&m.head, m.learn, m.build)
	case "mil-fgsa":
		m := &FGSA{hidden: c.Hidden, attention: c.Attention}
		return ofBags(&m.head, m.learn, m.build)
	case "mil-prenet":
		m := &PReNET{}
		m.build(len(c.Input[0]), nil)
		c.set(t, &m.head)
		value, grad = m.loss(violation, c.Partner, c.Input)
		return value, grad, m.blocks
	default:
		t.Fatalf("method %q has no loss here", c.Method)
	}
	return value, grad, nil
}

func (c goldenCase) set(t *testing.T, h *head) {
	if len(h.blocks) != len(c.Params) {
		t.Fatalf("%s: %d blocks of parameters, want %d", c.Method, len(h.blocks), len(c.Params))
	}
	for i, b := range h.blocks {
		if copy(b.value, c.Params[i]) != len(b.value) || len(c.Params[i]) != len(b.value) {
			t.Fatalf("%s: block %d has %d parameters, want %d", c.Method, i, len(b.value), len(c.Params[i]))
		}
	}
}
