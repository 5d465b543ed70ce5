package baseline

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"assay/rewardmodel/train"
)

// TestGradientsMatchFiniteDifferences checks the gradients of the heads, at their actual size, against finite
// differences of the loss.
func TestGradientsMatchFiniteDifferences(t *testing.T) {
	attention, fgsa, prenet := &Attention{}, &FGSA{}, &PReNET{}
	for _, c := range []struct {
		name  string
		head  *head
		build func(int, *rand.Rand)
		learn learnBag
	}{
		{"mil-attention", &attention.head, attention.build, attention.learn},
		{"mil-fgsa", &fgsa.head, fgsa.build, fgsa.learn},
		{"mil-prenet", &prenet.head, prenet.build, nil},
	} {
		rng := rand.New(rand.NewPCG(5, 9))
		c.build(8, rng)
		data := &train.Data{Bags: []train.Bag{
			{Violation: true, Instances: make([][]int32, 4)}, {Instances: make([][]int32, 1)}, {Instances: make([][]int32, 3)},
		}}
		bags := []int{0, 1, 2}
		batch := members(data, bags)
		features := make([][]float32, len(batch))
		for i := range features {
			features[i] = make([]float32, 8)
			for j := range features[i] {
				features[i][j] = float32(rng.IntN(512)-256) / 128
			}
		}
		partner := rng.Perm(len(batch))
		loss := func() (float64, [][]float32) {
			if c.learn == nil {
				return prenet.loss(violations(data, batch), partner, features)
			}
			return lossOfBags(data, c.head, c.learn, bags, features)
		}
		_, grads := loss()
		want := make([][]float64, len(c.head.blocks))
		for k, b := range c.head.blocks {
			want[k] = append(want[k], b.grad...)
		}
		const step = 1.0 / 1024
		slope := func(move func(by float64)) float64 {
			move(step)
			up, _ := loss()
			move(-2 * step)
			down, _ := loss()
			move(step)
			return (up - down) / (2 * step)
		}
		for range 40 {
			i, j := rng.IntN(len(features)), rng.IntN(8)
			got := slope(func(by float64) { features[i][j] += float32(by) })
			if !near(got, float64(grads[i][j]), 1e-5) {
				t.Errorf("%s: feature [%d][%d] has slope %v, gradient %v", c.name, i, j, got, grads[i][j])
			}
			k := rng.IntN(len(want))
			at := rng.IntN(len(want[k]))
			got = slope(func(by float64) { c.head.blocks[k].value[at] += by })
			if !near(got, want[k][at], 1e-5) {
				t.Errorf("%s: parameter [%d][%d] has slope %v, gradient %v", c.name, k, at, got, want[k][at])
			}
		}
	}
}

func TestAdamMatchesPyTorch(t *testing.T) {
	var h head
	b := h.block(2, 1)
	copy(b.value, []float64{0.5, -0.25})
	for _, step := range []struct {
		rate float64
		grad []float64
	}{{0.1, []float64{0.3, -2}}, {0.05, []float64{0.1, 1e-3}}, {0.025, []float64{-0.4, 0}}} {
		copy(b.grad, step.grad)
		h.adam(step.rate)
	}
	want := []float64{0.35854604218632574, -0.1035739762151881} // torch.optim.Adam
	for i := range want {
		if math.Abs(b.value[i]-want[i]) > 1e-14 {
			t.Errorf("parameter %d is %v, want %v", i, b.value[i], want[i])
		}
	}
}

func TestInitialValuesAreInRange(t *testing.T) {
	h := head{rng: rand.New(rand.NewPCG(1, 1))}
	var lowest, highest float64
	for _, v := range h.block(10000, 25).value {
		lowest, highest = min(lowest, v), max(highest, v)
	}
	if !(lowest >= -0.2 && lowest < -0.199 && highest <= 0.2 && highest > 0.199) {
		t.Errorf("values from %v to %v, want ±1/sqrt(25)", lowest, highest)
	}
}

// TestHeadsRoundTrip saves a head during training and loads it into another.
func TestHeadsRoundTrip(t *testing.T) {
	var m, again FGSA
	m.build(5, rand.New(rand.NewPCG(1, 1)))
	for _, b := range m.blocks {
		for i := range b.grad {
			b.grad[i] = math.Sin(float64(i))
		}
	}
	m.adam(1e-3)
	data, err := m.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if err := again.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	m.adam(1e-3)
	for i, b := range again.blocks {
		copy(b.grad, m.blocks[i].grad)
	}
	again.adam(1e-3)
	one, _ := m.MarshalBinary()
	two, _ := again.MarshalBinary()
	if !bytes.Equal(one, two) {
		t.Error("a step after loading differs from one without")
	}
	var other PReNET
	if err := other.UnmarshalBinary(data); err == nil || other.blocks != nil {
		t.Errorf("the parameters of another method were loaded: %v", err)
	}
}
