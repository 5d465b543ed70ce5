package encoder

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"

	"assay/rewardmodel/checkpoint"
)

// tensorScope runs tensor operations. It records the first error, after which every operation is skipped and returns
// nil. It owns every tensor created through it: drop frees them all, because Go's garbage collector does not see their
// memory. Use it on the libtorch thread only.
type tensorScope struct {
	err   error
	owned []*ts.Tensor
}

func (s *tensorScope) drop() {
	for _, t := range s.owned {
		if err := t.Drop(); err != nil {
			s.fail("drop", err)
		}
	}
	s.owned = s.owned[:0]
}

func (s *tensorScope) fail(op string, err error) {
	if s.err == nil {
		s.err = fmt.Errorf("encoder: %s: %s", op, firstLine(err.Error()))
	}
}

// do runs one operation that returns a tensor, unless an earlier one failed.
func (s *tensorScope) do(op string, f func() (*ts.Tensor, error)) *ts.Tensor {
	if s.err != nil {
		return nil
	}
	t, err := f()
	if err != nil {
		s.fail(op, err)
		return nil
	}
	s.owned = append(s.owned, t)
	return t
}

// run runs one in-place operation, unless an earlier one failed.
func (s *tensorScope) run(op string, f func() error) {
	if s.err != nil {
		return
	}
	if err := f(); err != nil {
		s.fail(op, err)
	}
}

// copy copies source into target, whose device may be another one. It does not use Copy_, which ends the process on an
// error.
func (s *tensorScope) copy(target, source *ts.Tensor) {
	s.do("copy", func() (*ts.Tensor, error) { return target.CopyOut(target, source, false, false) })
}

// nested runs f in a new scope and frees every tensor of that scope except the result, which s then owns. The peak
// memory of a forward pass is therefore that of its largest part, not of all parts; autograd itself retains what the
// backward pass needs.
func (s *tensorScope) nested(f func(inner *tensorScope) *ts.Tensor) *ts.Tensor {
	inner := tensorScope{err: s.err}
	t := inner.release(f(&inner))
	if inner.err == nil {
		s.owned = append(s.owned, t)
	}
	inner.drop()
	s.err = inner.err
	return t
}

// release transfers ownership of a tensor to the caller: drop no longer frees it.
func (s *tensorScope) release(t *ts.Tensor) *ts.Tensor {
	for i := len(s.owned) - 1; i >= 0; i-- {
		if s.owned[i] == t {
			s.owned = append(s.owned[:i], s.owned[i+1:]...)
			break
		}
	}
	return t
}

// linear multiplies x by w and adds b, which may be nil.
func (s *tensorScope) linear(x, w, b *ts.Tensor) *ts.Tensor {
	return s.do("linear", func() (*ts.Tensor, error) { return ts.Linear(x, w, orUndefined(b)) })
}

// orUndefined replaces nil by a tensor that gotch passes to libtorch as undefined.
func orUndefined(t *ts.Tensor) *ts.Tensor {
	if t == nil {
		return new(ts.Tensor)
	}
	return t
}

func (s *tensorScope) add(a, b *ts.Tensor) *ts.Tensor {
	return s.do("add", func() (*ts.Tensor, error) { return a.Add(b, false) })
}

func (s *tensorScope) mul(a, b *ts.Tensor) *ts.Tensor {
	return s.do("mul", func() (*ts.Tensor, error) { return a.Mul(b, false) })
}

func (s *tensorScope) layerNorm(x *ts.Tensor, n norm, hidden int64, eps float64) *ts.Tensor {
	return s.do("layer_norm", func() (*ts.Tensor, error) {
		return ts.LayerNorm(x, []int64{hidden}, n.weight, orUndefined(n.bias), eps, false)
	})
}

func (s *tensorScope) dropout(x *ts.Tensor, p float64) *ts.Tensor {
	if p == 0 {
		return x
	}
	return s.do("dropout", func() (*ts.Tensor, error) { return ts.Dropout(x, p, true) })
}

func (s *tensorScope) activation(x *ts.Tensor, name string) *ts.Tensor {
	return s.do(name, func() (*ts.Tensor, error) {
		switch name {
		case checkpoint.GELU:
			return x.Gelu("none", false)
		case checkpoint.GELUTanh:
			return x.Gelu("tanh", false)
		case checkpoint.ReLU:
			return x.Relu(false)
		case checkpoint.Tanh:
			return x.Tanh(false)
		}
		return nil, fmt.Errorf("hidden_act %q is not supported", name)
	})
}

func (s *tensorScope) rows(x *ts.Tensor, start, n int64) *ts.Tensor {
	return s.do("narrow", func() (*ts.Tensor, error) { return x.Narrow(0, start, n, false) })
}

func (s *tensorScope) columns(x *ts.Tensor, start, n int64) *ts.Tensor {
	return s.do("narrow", func() (*ts.Tensor, error) { return x.Narrow(1, start, n, false) })
}

func (s *tensorScope) pick(x *ts.Tensor, rows *ts.Tensor) *ts.Tensor {
	return s.do("index_select", func() (*ts.Tensor, error) { return x.IndexSelect(0, rows, false) })
}

func (s *tensorScope) at(x *ts.Tensor, dim, index int64) *ts.Tensor {
	return s.do("select", func() (*ts.Tensor, error) { return x.Select(dim, index, false) })
}

func (s *tensorScope) reshape(x *ts.Tensor, shape ...int64) *ts.Tensor {
	return s.do("reshape", func() (*ts.Tensor, error) { return x.Reshape(shape, false) })
}

func (s *tensorScope) permute(x *ts.Tensor, dims ...int64) *ts.Tensor {
	return s.do("permute", func() (*ts.Tensor, error) { return x.Permute(dims, false) })
}

func (s *tensorScope) cat(parts []*ts.Tensor) *ts.Tensor {
	if len(parts) == 1 {
		return parts[0]
	}
	return s.do("cat", func() (*ts.Tensor, error) { return ts.Cat(parts, 0) })
}

// split splits x along its first dimension into parts of the given sizes.
func (s *tensorScope) split(x *ts.Tensor, sizes []int64) []*ts.Tensor {
	if len(sizes) == 1 {
		return []*ts.Tensor{x}
	}
	return s.several("split", len(sizes), func() ([]*ts.Tensor, error) { return x.SplitWithSizes(sizes, 0) })
}

// unbind returns the n slices of x along its first dimension.
func (s *tensorScope) unbind(x *ts.Tensor, n int) []*ts.Tensor {
	return s.several("unbind", n, func() ([]*ts.Tensor, error) { return x.Unbind(0) })
}

// several runs one operation that returns n tensors. Their gradients are concatenated once, whereas n separate slices
// would each add a gradient as large as the whole tensor.
func (s *tensorScope) several(op string, n int, f func() ([]*ts.Tensor, error)) []*ts.Tensor {
	none := make([]*ts.Tensor, n)
	if s.err != nil {
		return none
	}
	parts, err := f()
	if err == nil && len(parts) != n {
		err = fmt.Errorf("%d parts, want %d", len(parts), n)
	}
	s.owned = append(s.owned, parts...)
	if err != nil {
		s.fail(op, err)
		return none
	}
	return parts
}

func (s *tensorScope) embedding(weight, ids *ts.Tensor) *ts.Tensor {
	return s.do("embedding", func() (*ts.Tensor, error) { return ts.Embedding(weight, ids, -1, false, false) })
}

// attention is softmax(scale * q k^T + mask) v for q, k, v of shape [batch, heads, length, d]. A nil scale is 1/sqrt(d).
func (s *tensorScope) attention(q, k, v, mask *ts.Tensor, scale []float64, dropout float64) *ts.Tensor {
	return s.do("attention", func() (*ts.Tensor, error) {
		return ts.ScaledDotProductAttention(q, k, v, mask, dropout, false, scale)
	})
}

func (s *tensorScope) cast(x *ts.Tensor, kind gotch.DType) *ts.Tensor {
	if s.err != nil || x.DType() == kind {
		return x
	}
	return s.do("cast", func() (*ts.Tensor, error) { return x.Totype(kind, false) })
}

func (s *tensorScope) toDevice(x *ts.Tensor, device gotch.Device) *ts.Tensor {
	if !device.IsCuda() {
		return x
	}
	return s.do("to device", func() (*ts.Tensor, error) { return x.To(device, false) })
}

func (s *tensorScope) toCPU(x *ts.Tensor, from gotch.Device) *ts.Tensor {
	if !from.IsCuda() {
		return x
	}
	return s.do("to cpu", func() (*ts.Tensor, error) { return x.To(gotch.CPU, false) })
}

// empty allocates an uninitialized CPU tensor and returns it with a Go view of its memory, so that data is written once,
// in place.
func (s *tensorScope) empty(kind gotch.DType, shape ...int64) (*ts.Tensor, []byte) {
	t := s.do("empty", func() (*ts.Tensor, error) { return ts.Empty(shape, kind, gotch.CPU) })
	return t, s.bytes(t, int(kind.Size()), shape)
}

// bytes is the memory of a contiguous CPU tensor.
func (s *tensorScope) bytes(t *ts.Tensor, elem int, shape []int64) []byte {
	n := elem
	for _, d := range shape {
		n *= int(d)
	}
	if s.err != nil {
		return nil
	}
	p, err := t.DataPtr()
	if err == nil && p == nil && n > 0 {
		err = errors.New("tensor has no data")
	}
	if err != nil {
		s.fail("data pointer", err)
		return nil
	}
	return unsafe.Slice((*byte)(p), n)
}

// int64s copies v to an int64 tensor [n] on device.
func (s *tensorScope) int64s(v []int64, device gotch.Device) *ts.Tensor {
	t, mem := s.empty(gotch.Int64, int64(len(v)))
	if s.err == nil && len(v) > 0 {
		copy(unsafe.Slice((*int64)(unsafe.Pointer(&mem[0])), len(v)), v)
	}
	return s.toDevice(t, device)
}

// float32s copies v to a float32 tensor of the given shape on device.
func (s *tensorScope) float32s(v []float32, device gotch.Device, shape ...int64) *ts.Tensor {
	t, mem := s.empty(gotch.Float, shape...)
	if s.err == nil && len(v) > 0 {
		copy(unsafe.Slice((*float32)(unsafe.Pointer(&mem[0])), len(v)), v)
	}
	return s.toDevice(t, device)
}

// values returns the n elements of a tensor as float32.
func (s *tensorScope) values(t *ts.Tensor, n int, device gotch.Device) []float32 {
	t = s.toCPU(s.cast(t, gotch.Float), device)
	t = s.do("contiguous", func() (*ts.Tensor, error) { return t.Contiguous(false) })
	mem := s.bytes(t, 4, []int64{int64(n)})
	if s.err != nil || n == 0 {
		return nil
	}
	out := make([]float32, n)
	copy(out, unsafe.Slice((*float32)(unsafe.Pointer(&mem[0])), n))
	return out
}
