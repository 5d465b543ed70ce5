package encoder

import (
	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"
)

// fuser repacks the network of a model, one linear layer per call on the libtorch thread, so that a model that is
// scoring at the same time waits only briefly. The new tensors belong to the model; those that it replaces are freed.
type fuser struct {
	model *Model
	err   error // the first
}

// fuse replaces the layers of m by fused ones of floats.
func (m *Model) fuse() error {
	n, hidden := m.net, int64(m.net.cfg.HiddenSize)
	u := &fuser{model: m}
	f := &fused{net: n, kind: n.kind, threads: m.runtime.threads, layers: make([]fusedLayer, len(n.layers)), embedNorm: u.norm(n.embedNorm)}
	wide := int64(n.cfg.Intermediate)
	if n.isModern() {
		wide *= 2 // with the gate
		f.finalNorm, f.headNorm = u.norm(n.modern.finalNorm), u.norm(n.modern.headNorm)
	}
	for i, l := range n.layers {
		to := &f.layers[i]
		if i == len(n.layers)-1 && !n.cfg.Modern.MeanPooling {
			to.query, to.keyValue = u.dense(l.qkv, 0, hidden), u.dense(l.qkv, hidden, 3*hidden)
		} else {
			to.query = u.dense(l.qkv, 0, 3*hidden)
		}
		to.attended = u.dense(l.attended, 0, hidden)
		to.intermediate = u.dense(l.intermediate, 0, wide)
		to.output = u.dense(l.output, 0, hidden)
		to.attentionNorm, to.outputNorm = u.norm(l.attentionNorm), u.norm(l.outputNorm)
		u.free(l.qkv.weight, l.qkv.bias, l.attended.weight, l.attended.bias, l.intermediate.weight, l.intermediate.bias, l.output.weight, l.output.bias)
	}
	return u.replace(f)
}

// replace lays out the classifier for f, which replaces the layers of the model.
func (u *fuser) replace(f *fused) error {
	n, m := u.model.net, u.model
	f.pool, f.out = u.classifierLayer(n.pool, n.poolActivation()), u.classifierLayer(n.out, "")
	if u.err != nil {
		return u.err
	}
	net := *n
	net.layers = nil
	f.net, m.net, m.fused = &net, &net, f
	returnMemory()
	return nil
}

// dense packs rows [from, to) of a linear layer in oneDNN's layout.
func (u *fuser) dense(d dense, from, to int64) fusedDense {
	result := fusedDense{out: to - from}
	u.make(func(scope *tensorScope) []*ts.Tensor {
		result.weight = scope.prepackFloats(scope.rows(d.weight, from, to-from))
		if d.bias != nil {
			result.bias = scope.rows(d.bias, from, to-from) // which shares its memory
		} else {
			result.bias = scope.do("zeros", func() (*ts.Tensor, error) { return ts.Zeros([]int64{to - from}, u.model.net.kind, gotch.CPU) })
		}
		return []*ts.Tensor{result.weight, result.bias}
	})
	return result
}

// classifierLayer lays out d, which is float32.
func (u *fuser) classifierLayer(d dense, activation string) classifierLayer {
	l := classifierLayer{activation: activation}
	u.make(func(scope *tensorScope) []*ts.Tensor {
		size, err := d.weight.Size()
		if err != nil {
			scope.fail("size", err)
			return nil
		}
		l.out, l.in = size[0], size[1]
		wide := int64(roundTo16(int(l.out)))
		weight, bias := scope.values(d.weight, int(l.out*l.in), gotch.CPU), make([]float32, l.out)
		if d.bias != nil {
			bias = scope.values(d.bias, int(l.out), gotch.CPU)
		}
		if scope.err != nil {
			return nil
		}
		l.weight = scope.float32s(transposed(weight, int(l.in), int(l.out)), gotch.CPU, l.in, wide)
		l.bias = scope.float32s(append(bias, make([]float32, wide-l.out)...), gotch.CPU, wide)
		return []*ts.Tensor{l.weight, l.bias}
	})
	return l
}

// norm converts n to float32. The kernels need a bias: one that is missing becomes 0.
func (u *fuser) norm(n norm) norm {
	result := norm{}
	if n.weight == nil {
		return result
	}
	u.make(func(scope *tensorScope) []*ts.Tensor {
		var made []*ts.Tensor
		float := func(t *ts.Tensor) *ts.Tensor {
			cast := scope.cast(t, gotch.Float)
			if cast != t {
				made = append(made, cast)
			}
			return cast
		}
		result.weight = float(n.weight)
		if n.bias != nil {
			result.bias = float(n.bias)
		} else if scope.err == nil {
			result.bias = scope.do("zeros", func() (*ts.Tensor, error) { return result.weight.ZerosLike(false) })
			made = append(made, result.bias)
		}
		return made
	})
	return result
}

// make runs f on the libtorch thread and adds the tensors that f returns to the model.
func (u *fuser) make(f func(scope *tensorScope) []*ts.Tensor) {
	if u.err == nil {
		u.err = u.model.keep(f)
	}
}

// keep runs f on the libtorch thread. The tensors that f returns become the model's.
func (m *Model) keep(f func(scope *tensorScope) []*ts.Tensor) error {
	return m.runtime.do(func() error {
		defer withoutGradients()()
		var scope tensorScope
		defer scope.drop()
		result := f(&scope)
		if scope.err != nil {
			return scope.err
		}
		for _, t := range result {
			m.params = append(m.params, param{tensor: scope.release(t)})
		}
		return nil
	})
}

// free drops tensors of the model.
func (u *fuser) free(tensors ...*ts.Tensor) {
	u.make(func(scope *tensorScope) []*ts.Tensor {
		dropped := map[*ts.Tensor]bool{}
		for _, t := range tensors {
			dropped[t] = true
		}
		left := u.model.params[:0]
		for _, p := range u.model.params {
			if dropped[p.tensor] {
				scope.owned = append(scope.owned, p.tensor)
			} else {
				left = append(left, p)
			}
		}
		u.model.params = left
		return nil
	})
}
