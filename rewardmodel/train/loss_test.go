package train

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLossGolden compares the weighted loss and its gradient with PyTorch's autograd (testdata/make_losses.py).
func TestLossGolden(t *testing.T) {
	data, err := os.ReadFile("testdata/losses.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Weights    Weights
		Loss       LossKind
		SigmaMicro float64 `json:"sigma_micro"`
		Sizes      []int
		Violation  []bool
		Logits     [][2]float32
		Value      float64
		Grad       [][2]float64
	}
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) != 12 {
		t.Fatalf("%d cases: %v", len(cases), err)
	}
	for i, c := range cases {
		d := &Data{}
		var batch []ref
		for b, size := range c.Sizes {
			d.Bags = append(d.Bags, Bag{Violation: c.Violation[b], Instances: make([][]int32, size)})
			for k := range size {
				batch = append(batch, ref{b, k})
			}
		}
		m := BFGPU{Weights: c.Weights, Loss: c.Loss, Normaliser: NormaliserSum, SigmaMicro: c.SigmaMicro}
		if m.Weights == WeightsPaper {
			m.Normaliser = NormaliserCount
		}
		value, grad := m.loss(newEpoch(d, 16), batch)(c.Logits)
		if math.Abs(value-c.Value) > 1e-9*math.Max(1, c.Value) {
			t.Errorf("case %d (%s, %s): loss %v, want %v", i, c.Weights, c.Loss, value, c.Value)
		}
		for k := range grad {
			for j := range grad[k] {
				if math.Abs(float64(grad[k][j])-c.Grad[k][j]) > 1e-6 {
					t.Errorf("case %d (%s, %s): gradient[%d] %v, want %v", i, c.Weights, c.Loss, k, grad[k], c.Grad[k])
				}
			}
		}
	}
}

func TestLossesAreFiniteAtExtremeLogits(t *testing.T) {
	for _, kind := range []LossKind{CrossEntropy, Sigmoid} {
		for _, z := range [][2]float32{{1e4, -1e4}, {-1e4, 1e4}, {0, 0}} {
			for _, violation := range []bool{true, false} {
				value, grad := kind.of(z, violation)
				if s := value + grad[0] + grad[1]; math.IsNaN(s) || math.IsInf(s, 0) {
					t.Errorf("%s of %v: %v %v", kind, z, value, grad)
				}
			}
		}
	}
	// The paper's assumption on a symmetric loss: L(t,+1) + L(t,-1) = 1.
	a, _ := Sigmoid.of([2]float32{0.7, -0.2}, true)
	b, _ := Sigmoid.of([2]float32{0.7, -0.2}, false)
	if math.Abs(a+b-1) > 1e-12 {
		t.Errorf("sigmoid loss of both labels sums to %v", a+b)
	}
}

func TestSchedule(t *testing.T) {
	for _, floor := range []float64{0, 1} {
		s := schedule{peak: 2, floor: floor, total: 10}
		for step, want := range map[int]float64{0: 2, 5: (2 + floor) / 2, 10: floor, 99: floor} {
			if got := s.rate(step); math.Abs(got-want) > 1e-12 {
				t.Errorf("floor %v: rate(%d) = %v, want %v", floor, step, got, want)
			}
		}
	}
}

func TestScheduleWarmsUp(t *testing.T) {
	s := schedule{peak: 2, floor: 1, warmup: 4, total: 12}
	for step, want := range map[int]float64{0: 0.5, 1: 1, 3: 2, 4: 2, 8: 1.5, 12: 1} {
		if got := s.rate(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("rate(%d) = %v, want %v", step, got, want)
		}
	}
}

func TestAboveLeavesNAbove(t *testing.T) {
	scores := []float64{0.9, 0.1, 0.8, 0.3}
	for n := range len(scores) + 1 {
		threshold, flagged := above(scores, n), 0
		for _, s := range scores {
			if s > threshold {
				flagged++
			}
		}
		if flagged != n {
			t.Errorf("above(%d) = %v flags %d", n, threshold, flagged)
		}
	}
}

// The bag loss reaches the witness of a violation that the network overlooks, on which the weights of BFGPU are small.
func TestBagLossLearnsFromOverlookedViolations(t *testing.T) {
	e := newEpoch(&Data{Bags: []Bag{
		{Violation: true, Instances: [][]int32{{1}, {2}}},
		{Violation: true, Instances: [][]int32{{3}}}, // overlooked
		{Instances: [][]int32{{4}, {5}}},
	}}, 8)
	batch, _ := e.members([]int{0, 1, 2})
	logits := [][2]float32{{4, -4}, {-4, 4}, {-3, 3}, {-4, 4}, {-2, 2}}
	m := DefaultBFGPU()
	m.Loss = CrossEntropy
	plain, without := m.loss(e, batch)(logits)
	bags, _ := (Pooling{Top: 1}).lossOf(e, batch)(logits)
	both, with := plus(m.loss(e, batch), 2, (Pooling{Top: 1}).lossOf(e, batch))(logits)
	require.InDelta(t, plain+2*bags, both, 1e-9)
	require.InDelta(t, 0, without[2][0], 0.01)
	require.Less(t, with[2][0], float32(-0.5), "toward the violation")
	require.Equal(t, without[1], with[1], "not a witness")
	require.Greater(t, with[4][0], without[4][0], "away from the violation")
}
