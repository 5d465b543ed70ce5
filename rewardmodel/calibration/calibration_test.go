package calibration

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"assay/rewardmodel/logistic"
)

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		m    Map
		want string // "": valid
	}{
		"none":          {Map{}, ""},
		"zero alone":    {Map{[]float64{0}, []float64{0}}, ""},
		"three":         {Map{[]float64{-2, 0, 1}, []float64{-1, 0, 3}}, ""},
		"lengths":       {Map{[]float64{0}, nil}, "1 knots in from and 0 in to"},
		"no zero":       {Map{[]float64{1}, []float64{1}}, "0 to 0"},
		"zero moves":    {Map{[]float64{0, 1}, []float64{0.1, 1}}, "0 to 0"},
		"falls":         {Map{[]float64{0, 1}, []float64{0, -1}}, "must rise"},
		"flat":          {Map{[]float64{0, 1}, []float64{0, 0}}, "must rise"},
		"twice":         {Map{[]float64{0, 0}, []float64{0, 1}}, "must rise"},
		"not a number":  {Map{[]float64{0, math.NaN()}, []float64{0, 1}}, "knot 1"},
		"infinite":      {Map{[]float64{0, 1}, []float64{0, math.Inf(1)}}, "knot 1"},
		"steep":         {Map{[]float64{0, 1e-3}, []float64{0, 100}}, "slope"},
		"nearly flat":   {Map{[]float64{0, 100}, []float64{0, 1e-3}}, "slope"},
		"too many":      {Map{make([]float64, 65), make([]float64, 65)}, "at most 64"},
		"beyond bounds": {Map{[]float64{0, 1001}, []float64{0, 1001}}, "between"},
	} {
		err := c.m.Validate()
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrMap) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestAt(t *testing.T) {
	m := Map{From: []float64{-2, 0, 1, 3}, To: []float64{-8, 0, 0.5, 4.5}}
	for z, want := range map[float64]float64{
		-3: -9, -2: -8, -1: -4, 0: 0, 0.5: 0.25, 1: 0.5, 2: 2.5, 3: 4.5, 10: 11.5,
		math.Inf(1): math.Inf(1), math.Inf(-1): math.Inf(-1),
	} {
		if got := m.At(z); got != want {
			t.Errorf("%v is mapped to %v, want %v", z, got, want)
		}
		if back := m.Inverse().At(want); back != z {
			t.Errorf("%v is mapped back to %v, want %v", want, back, z)
		}
		if got := (Map{}).At(z); got != z {
			t.Errorf("without knots %v is mapped to %v", z, got)
		}
	}
}

// A fitted map is valid for any values, and matches the distribution of the target
// where the slopes allow it.
func TestFitProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		values := func() []float64 {
			out := make([]float64, random.IntN(200))
			scale, shift := math.Pow(10, random.Float64()*4-2), random.NormFloat64()
			for i := range out {
				out[i] = shift + random.NormFloat64()*scale
				if random.IntN(50) == 0 {
					out[i] = []float64{0, math.Inf(1), math.Inf(-1), math.NaN(), 1e-300, out[0]}[random.IntN(6)]
				}
			}
			return out
		}
		m := Fit(values(), values())
		if err := m.Validate(); err != nil {
			t.Fatalf("%+v: %v", m, err)
		}
		if len(m.From) > 2*maxSide+1 {
			t.Fatalf("%d knots", len(m.From))
		}
		checkMap(t, m, random.NormFloat64()*10, random.NormFloat64()*10)
	}
}

func TestFitMatchesTheDistribution(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var from, to []float64
	for range 2000 {
		z := random.NormFloat64() + 0.4
		from, to = append(from, z), append(to, math.Copysign(math.Pow(math.Abs(z), 1.5)*3, z))
	}
	m := Fit(from, to)
	mapped := make([]float64, len(from))
	for i, z := range from {
		mapped[i] = m.At(z)
	}
	slices.Sort(mapped)
	slices.Sort(to)
	if d := stat.KolmogorovSmirnov(mapped, nil, to, nil); d > 0.05 {
		t.Errorf("the distributions are %v apart", d)
	}
}

func TestFitSkipsSmallSides(t *testing.T) {
	from, to := make([]float64, 0, 60), make([]float64, 0, 60)
	for i := range 40 {
		from, to = append(from, float64(i+1)/10), append(to, float64(i+1)/5)
	}
	for i := range MinSide - 1 {
		from, to = append(from, -float64(i+1)/10), append(to, -float64(i+1)/5)
	}
	m := Fit(from, to)
	if err := m.Validate(); err != nil || m.From[0] != 0 || len(m.From) != 5 {
		t.Fatalf("%+v: %v", m, err)
	}
	if got := m.At(-1.5); got != -1.5 {
		t.Errorf("-1.5 is mapped to %v", got)
	}
	if got := m.At(2); math.Abs(got-4) > 0.01 {
		t.Errorf("2 is mapped to %v", got)
	}
	if m := Fit(from[:MinSide-1], to); m.From != nil {
		t.Errorf("too few values give %+v", m)
	}
	if m := Fit(from, from); !m.Identity() {
		t.Errorf("the same values give %+v", m)
	}
}

// checkMap compares two values before and after.
func checkMap(t *testing.T, m Map, a, b float64) {
	t.Helper()
	if a > b {
		a, b = b, a
	}
	x, y := m.At(a), m.At(b)
	if math.IsNaN(x) || math.IsInf(x, 0) || math.IsNaN(y) || math.IsInf(y, 0) {
		t.Fatalf("%+v maps %v and %v to %v and %v", m, a, b, x, y)
	}
	if x > y || m.At(0) != 0 {
		t.Fatalf("%+v maps %v and %v to %v and %v, and 0 to %v", m, a, b, x, y, m.At(0))
	}
	for z, out := range map[float64]float64{a: x, b: y} {
		if (z > 0) != (out > 0) || (z < 0) != (out < 0) {
			t.Fatalf("%+v maps %v to %v", m, z, out)
		}
	}
}

func FuzzAt(f *testing.F) {
	f.Add(-1., 1., 0.5, 2., 0.3, 0.2, -0.1)
	f.Add(-1e-300, 5e-324, 1., 1., 1., 0., -0.)
	f.Fuzz(func(t *testing.T, from0, from2, to0, to2, to1, a, b float64) {
		m := Map{From: []float64{from0, 0, from2, from2 + 1}, To: []float64{to0, 0, to2, to2 + to1}}
		if m.Validate() != nil || !(math.Abs(a) <= 1e4 && math.Abs(b) <= 1e4) {
			t.Skip()
		}
		if math.Abs(a) < 1e-300 || math.Abs(b) < 1e-300 { // a slope of 1/1000 would take it to 0
			t.Skip()
		}
		checkMap(t, m, a, b)
	})
}

// The rewards of values that are close together on the negative side become uniform on (0, 0.5).
func TestSpread(t *testing.T) {
	var values []float64
	for i := range 200 {
		values = append(values, -float64(i+1)/200, float64(i)/50) // down to -1, and up to 4
	}
	m := Spread(values)
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	for q, want := range map[float64]float64{0.25: 0.375, 0.5: 0.25, 0.75: 0.125, 0.9: 0.05} {
		if got := logistic.Sigmoid(m.At(-q)); math.Abs(got-want) > 0.02 {
			t.Errorf("the reward at quantile %v is %.3f, want %.3f", q, got, want)
		}
	}
	for _, z := range []float64{0, 0.5, 3} {
		if m.At(z) != z {
			t.Errorf("%v is mapped to %v", z, m.At(z))
		}
	}
	for name, values := range map[string][]float64{
		"few":           {-0.1, -0.2, 3, 4},
		"none negative": {1, 2, 3},
		"none":          nil,
	} {
		if m := Spread(values); !m.Identity() {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// Values that are far from 0 already stay where they are.
func TestSpreadNeverRaises(t *testing.T) {
	var values []float64
	for i := range 100 {
		values = append(values, -5-float64(i)/10)
	}
	m := Spread(values)
	for _, z := range []float64{-5, -8, -14, -30} {
		if got := m.At(z); math.Abs(got-z) > 1e-9 {
			t.Errorf("%v is mapped to %v", z, got)
		}
	}
}
