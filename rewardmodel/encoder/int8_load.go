package encoder

// #include "int8.h"
import "C"

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/logistic"
	"assay/rewardmodel/tokenizer"
)

// ErrPrecision is returned by Load when a precision would move the scores of a model too far.
var ErrPrecision = errors.New("encoder: the precision moves the scores of this model too far")

// DefaultPrecisionLimit is the maximum mean change that int8 may make to the violation of the built-in check texts. The
// maximum change of a single text is ten times as large.
const DefaultPrecisionLimit = 0.01

// loadInt8 loads a model with int8 layers and validates its scores on the check texts.
func (r *Runtime) loadInt8(ckpt *checkpoint.Checkpoint) (*Model, error) {
	if err := r.hasInt8(); err != nil {
		return nil, fmt.Errorf("encoder: precision int8: %w", err)
	}
	tok, err := tokenizer.Load(ckpt.Dir)
	if err != nil {
		return nil, fmt.Errorf("encoder: precision int8 needs the model's tokenizer for its built-in texts: %w", err)
	}
	var checks []rewardmodel.Sequence
	for _, text := range int8CheckTexts {
		checks = append(checks, rewardmodel.Sequence{IDs: tok.Frame(tok.IDs(text))})
	}
	return r.loadInt8With(ckpt, checks)
}

// loadInt8With is loadInt8 with the given tokenized check texts. With context, each is also a reply to the preceding one.
func (r *Runtime) loadInt8With(ckpt *checkpoint.Checkpoint, checks []rewardmodel.Sequence) (*Model, error) {
	if cfg := ckpt.Config; cfg.Disentangled.Relative || cfg.ModelType == checkpoint.ModernBert {
		return nil, fmt.Errorf("encoder: precision int8 does not support %s; use bf16 or fp32", cfg.ModelType)
	}
	m, err := r.loadPlain(ckpt, FP32)
	if err != nil {
		return nil, err
	}
	for i := range checks {
		checks[i].IDs = checks[i].IDs[:min(len(checks[i].IDs), m.MaxLength())]
	}
	if limit := ckpt.MaxContext(); limit > 0 {
		for i := range len(checks) - 1 {
			context := checks[i].IDs
			checks = append(checks, rewardmodel.Sequence{IDs: checks[i+1].IDs, Context: context[:min(len(context), limit)]})
		}
	}
	if err := m.toInt8(checks); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// toInt8 replaces the float32 layers of m.
func (m *Model) toInt8(checks []rewardmodel.Sequence) error {
	exact, err := m.Margins(checks)
	if err != nil {
		return err
	}
	if err := m.fuseInt8(); err != nil {
		return err
	}
	m.precision = Int8
	got, err := m.Margins(checks)
	if err != nil {
		return err
	}
	return checkPrecision(m.precision, m.runtime.limit, len(checks), exact, got)
}

// fuseInt8 quantizes the linear layers of m, and frees the float32 ones. Everything between the matrix multiplications
// stays float32.
func (m *Model) fuseInt8() error {
	n, hidden := m.net, int64(m.net.cfg.HiddenSize)
	u := &fuser{model: m}
	e := &int8Engine{level: C.int8_best(), model: C.int8_batch{
		hidden: C.int64_t(hidden), heads: C.int64_t(n.cfg.Heads), intermediate: C.int64_t(n.cfg.Intermediate), layer_count: C.int64_t(len(n.layers)),
		function: function(n.cfg.HiddenAct), scale: C.float(n.scale[0]), epsilon: C.float(n.cfg.LayerNormEps),
		word: u.floats(n.word), position: u.floats(n.position), token_type: u.floats(n.tokenType), embed_norm: u.int8Norm(n.embedNorm),
	}}
	layers := make([]C.int8_layer, len(n.layers))
	for i, l := range n.layers {
		to := &layers[i]
		if i == len(n.layers)-1 {
			to.query, to.key_value = u.int8Linear(l.qkv, 0, hidden), u.int8Linear(l.qkv, hidden, 3*hidden)
		} else {
			to.query = u.int8Linear(l.qkv, 0, 3*hidden)
		}
		to.attended = u.int8Linear(l.attended, 0, hidden)
		to.intermediate = u.int8Linear(l.intermediate, 0, int64(n.cfg.Intermediate))
		to.output = u.int8Linear(l.output, 0, hidden)
		to.attention_norm, to.output_norm = u.int8Norm(l.attentionNorm), u.int8Norm(l.outputNorm)
		u.free(l.qkv.weight, l.qkv.bias, l.attended.weight, l.attended.bias, l.intermediate.weight, l.intermediate.bias, l.output.weight, l.output.bias)
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&layers[0])), len(layers)*C.sizeof_int8_layer)
	e.model.layers = (*C.int8_layer)(u.memory(int64(len(bytes)), func(memory unsafe.Pointer) { copy(unsafe.Slice((*byte)(memory), len(bytes)), bytes) }))
	return u.replace(&fused{net: n, kind: n.kind, threads: m.runtime.threads, int8: e})
}

// memory allocates memory that the model owns, aligned to 64 bytes, and has fill write to it.
func (u *fuser) memory(bytes int64, fill func(memory unsafe.Pointer)) (memory unsafe.Pointer) {
	u.make(func(scope *tensorScope) []*ts.Tensor {
		t, mem := scope.empty(gotch.Int8, bytes)
		if scope.err != nil {
			return nil
		}
		memory = unsafe.Pointer(&mem[0])
		fill(memory)
		return []*ts.Tensor{t}
	})
	return memory
}

// floats returns the values of a tensor of the model, which is float32; nil has none.
func (u *fuser) floats(t *ts.Tensor) (values *C.float) {
	u.make(func(scope *tensorScope) []*ts.Tensor {
		values = (*C.float)(pointer(scope, t))
		return nil
	})
	return values
}

// int8Norm rounds the columns of n up to vectors of 16.
func (u *fuser) int8Norm(n norm) C.int8_norm {
	n = u.norm(n)
	w := C.int8_norm{weight: u.floats(n.weight), bias: u.floats(n.bias)}
	columns := u.model.net.cfg.HiddenSize
	if columns%16 == 0 || u.err != nil {
		return w
	}
	wide := (columns + 15) / 16 * 16
	padded := u.memory(int64(2*wide*4), func(memory unsafe.Pointer) {
		to := unsafe.Slice((*C.float)(memory), 2*wide)
		clear(to)
		copy(to, unsafe.Slice(w.weight, columns))
		copy(to[wide:], unsafe.Slice(w.bias, columns))
	})
	return C.int8_norm{weight: (*C.float)(padded), bias: (*C.float)(unsafe.Add(padded, wide*4))}
}

// int8Linear quantizes rows [from, to) of a linear layer to int8, off the libtorch thread.
func (u *fuser) int8Linear(d dense, from, to int64) (packed C.int8_linear) {
	var weight, bias []float32
	out, in := to-from, int64(0)
	u.make(func(scope *tensorScope) []*ts.Tensor {
		size, err := d.weight.Size()
		if err != nil {
			scope.fail("size", err)
			return nil
		}
		in = size[1]
		weight = scope.values(scope.rows(d.weight, from, out), int(out*in), gotch.CPU)
		bias = scope.values(scope.rows(d.bias, from, out), int(out), gotch.CPU)
		return nil
	})
	if u.err != nil {
		return packed
	}
	rounded, scales := quantize(weight, int(in))
	u.memory(int64(C.int8_bytes(C.int64_t(in), C.int64_t(out))), func(memory unsafe.Pointer) {
		packed = C.int8_pack(memory, (*C.int8_t)(unsafe.Pointer(&rounded[0])), (*C.float)(unsafe.Pointer(&scales[0])), (*C.float)(unsafe.Pointer(&bias[0])), C.int64_t(in), C.int64_t(out))
	})
	return packed
}

// checkPrecision compares the margins of the given number of check texts, of every aspect, with those in fp32.
func checkPrecision(p Precision, limit float64, texts int, exact, got []float32) error {
	var sum, largest float64
	for i := range exact {
		moved := math.Abs(logistic.Sigmoid(float64(exact[i])) - logistic.Sigmoid(float64(got[i])))
		sum, largest = sum+moved, max(largest, moved)
	}
	mean := sum / float64(max(len(exact), 1))
	if !(mean <= limit && largest <= 10*limit) {
		return fmt.Errorf("%w: precision %s moves the violation of %d built-in texts by %.3f on average (limit %g) and by %.3f at most (limit %g); use bf16 or fp32",
			ErrPrecision, p, texts, mean, limit, largest, 10*limit)
	}
	return nil
}
