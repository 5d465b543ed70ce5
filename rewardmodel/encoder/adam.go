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

// adam is Adam with decoupled weight decay (Loshchilov and Hutter, 2019), implemented with tensor operations so that its
// moments can be saved: gotch's own optimizer does not expose them.
type adam struct {
	step    int
	decay   float64
	moments []moment // one per parameter
}

// moment holds the running means of a parameter's gradient and squared gradient.
type moment struct{ first, second *ts.Tensor }

// update applies one step of Adam with the gradients of the backward pass and clears them. Call it with gradients
// disabled.
func (s *step) update(scope *tensorScope, lr float64) {
	a := &s.adam
	a.step++
	for i, p := range s.params {
		var own tensorScope // frees this parameter's temporaries before the next one's
		if p.tensor == s.net.word {
			s.updateRows(&own, p.tensor, a.moments[i], lr)
		} else {
			a.update(&own, p.tensor, p.tensor, a.moments[i], lr)
		}
		own.drop()
		if own.err != nil && scope.err == nil {
			scope.err = own.err
		}
	}
}

// updateRows applies the step to the trained rows of the word embeddings and writes them back.
func (s *step) updateRows(scope *tensorScope, word *ts.Tensor, m moment, lr float64) {
	index := scope.int64s(s.wordRows.ids, s.net.device)
	if s.adam.decay > 0 && !s.wordRows.touched { // update decays the trained rows
		scope.scale(word, 1-lr*s.adam.decay)
	}
	some := moment{scope.pick(m.first, index), scope.pick(m.second, index)}
	values := scope.do("detach", func() (*ts.Tensor, error) { return s.word.Detach(false) })
	s.adam.update(scope, values, s.word, some, lr)
	for _, back := range [][2]*ts.Tensor{{word, values}, {m.first, some.first}, {m.second, some.second}} {
		scope.run("index_copy", func() error { return back[0].IndexCopy_(0, index, back[1]) })
	}
}

// update applies one step to x with the gradient of leaf and clears that gradient.
func (a *adam) update(scope *tensorScope, x, leaf *ts.Tensor, m moment, lr float64) {
	grad := scope.do("grad", func() (*ts.Tensor, error) { return leaf.Grad(false) })
	if ok, err := defined(grad, scope.err); err != nil || !ok {
		if err != nil {
			scope.fail("grad", err)
		}
		return
	}
	correction1 := 1 - math.Pow(beta1, float64(a.step))
	correction2 := math.Sqrt(1 - math.Pow(beta2, float64(a.step)))
	scope.lerp(m.first, grad, 1-beta1)
	square := scope.do("square", func() (*ts.Tensor, error) { return grad.Square(false) })
	scope.lerp(m.second, square, 1-beta2)
	defer func() { scope.run("zero grad", grad.Zero_) }()
	if lr == 0 { // past the end of a schedule
		return
	}
	// x -= lr * (m / correction1) / (sqrt(v) / correction2 + eps), with the factors moved into the denominator
	root := scope.do("sqrt", func() (*ts.Tensor, error) { return m.second.Sqrt(false) })
	scope.scale(root, -correction1/(lr*correction2))
	scope.shift(root, -correction1*epsilon/lr)
	if a.decay > 0 {
		scope.scale(x, 1-lr*a.decay)
	}
	scope.run("step", func() error { return x.Addcdiv_(m.first, root) })
}

func defined(t *ts.Tensor, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	return t.Defined()
}

// lerp moves x toward y by weight, in place.
func (s *tensorScope) lerp(x, y *ts.Tensor, weight float64) {
	s.scalar("lerp", weight, func(w *ts.Scalar) error { return x.Lerp_(y, w) })
}

func (s *tensorScope) scale(x *ts.Tensor, by float64) {
	s.scalar("scale", by, func(by *ts.Scalar) error { return x.MulScalar_(by) })
}

func (s *tensorScope) shift(x *ts.Tensor, by float64) {
	s.scalar("shift", by, func(by *ts.Scalar) error { return x.AddScalar_(by) })
}

func (s *tensorScope) scalar(op string, v float64, f func(*ts.Scalar) error) {
	s.run(op, func() error {
		scalar := ts.FloatScalar(v)
		err := f(scalar)
		if dropErr := scalar.Drop(); err == nil {
			err = dropErr
		}
		return err
	})
}
