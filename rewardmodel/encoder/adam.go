package encoder

import (
	"math"

	"github.com/sugarme/gotch/ts"
)

// The constants of Adam (Kingma and Ba, 2015) as every recipe of the paper uses them.
const (
	beta1   = 0.9
	beta2   = 0.999
	epsilon = 1e-8
)

// adam is Adam with decoupled weight decay (Loshchilov and Hutter, 2019), written with tensor operations so that its
// moments can be saved: gotch's own optimizer keeps them out of reach.
type adam struct {
	step    int
	decay   float64
	moments []moment // one per parameter
}

// moment holds the running means of a parameter's gradient and squared gradient.
type moment struct{ first, second *ts.Tensor }

// update takes one step on the gradients that the backward pass left in params, and clears them.
// Call it with gradients disabled.
func (a *adam) update(g *graph, params []param, lr float64) {
	a.step++
	correction1 := 1 - math.Pow(beta1, float64(a.step))
	correction2 := math.Sqrt(1 - math.Pow(beta2, float64(a.step)))
	for i, p := range params {
		var s graph // frees this parameter's temporaries before the next one's
		grad := s.do("grad", func() (*ts.Tensor, error) { return p.tensor.Grad(false) })
		if defined, err := defined(grad, s.err); err != nil || !defined {
			s.drop()
			if err != nil {
				g.fail("grad", err)
			}
			continue
		}
		m := a.moments[i]
		s.lerp(m.first, grad, 1-beta1)
		square := s.do("square", func() (*ts.Tensor, error) { return grad.Square(false) })
		s.lerp(m.second, square, 1-beta2)
		// p -= lr * (m / correction1) / (sqrt(v) / correction2 + eps)
		root := s.do("sqrt", func() (*ts.Tensor, error) { return m.second.Sqrt(false) })
		s.scale(root, 1/correction2)
		s.shift(root, epsilon)
		delta := s.do("div", func() (*ts.Tensor, error) { return m.first.Div(root, false) })
		s.scale(delta, -lr/correction1)
		if a.decay > 0 {
			s.scale(p.tensor, 1-lr*a.decay)
		}
		s.run("step", func() error { return p.tensor.Add_(delta) })
		s.run("zero grad", grad.Zero_)
		s.drop()
		if s.err != nil && g.err == nil {
			g.err = s.err
		}
	}
}

func defined(t *ts.Tensor, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	return t.Defined()
}

// lerp moves x towards y by weight, in place.
func (g *graph) lerp(x, y *ts.Tensor, weight float64) {
	g.scalar("lerp", weight, func(w *ts.Scalar) error { return x.Lerp_(y, w) })
}

func (g *graph) scale(x *ts.Tensor, by float64) {
	g.scalar("scale", by, func(s *ts.Scalar) error { return x.MulScalar_(s) })
}

func (g *graph) shift(x *ts.Tensor, by float64) {
	g.scalar("shift", by, func(s *ts.Scalar) error { return x.AddScalar_(s) })
}

func (g *graph) scalar(op string, v float64, f func(*ts.Scalar) error) {
	g.run(op, func() error {
		s := ts.FloatScalar(v)
		err := f(s)
		if dropErr := s.Drop(); err == nil {
			err = dropErr
		}
		return err
	})
}
