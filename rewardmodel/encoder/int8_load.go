package encoder

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
	if err := m.fuse(m.packInt8); err != nil {
		return err
	}
	m.precision = Int8
	got, err := m.Margins(checks)
	if err != nil {
		return err
	}
	return checkPrecision(m.precision, m.runtime.limit, len(checks), exact, got)
}

// packInt8 quantizes rows [from, to) of a linear layer to int8, off the libtorch thread. Everything between the matrix
// multiplications stays float32.
func (m *Model) packInt8(d dense, from, to int64) (fusedDense, error) {
	var weight []float32
	out, in := to-from, int64(0)
	err := m.runtime.do(func() error {
		size, err := d.weight.Size()
		if err != nil {
			return err
		}
		in = size[1]
		var scope tensorScope
		defer scope.drop()
		weight = scope.values(scope.rows(d.weight, from, out), int(out*in), gotch.CPU)
		return scope.err
	})
	if err != nil {
		return fusedDense{}, err
	}
	rounded, scales := quantize(weight, int(in))
	result := fusedDense{out: out}
	err = m.keep(func(scope *tensorScope) []*ts.Tensor {
		plain, mem := scope.empty(gotch.Int8, out, in)
		if scope.err == nil {
			copy(unsafe.Slice((*int8)(unsafe.Pointer(&mem[0])), len(rounded)), rounded)
		}
		result.int8 = &quantized{
			weight: scope.prepackInt8(plain), scales: scope.float32s(scales, gotch.CPU, out), zeros: scope.zeroInt32s(out),
			bias: scope.rows(d.bias, from, out), one: scope.float32s([]float32{1}, gotch.CPU, 1), zero: scope.int64s([]int64{zeroPoint}, gotch.CPU),
		}
		return result.int8.tensors()
	})
	return result, err
}

func (s *tensorScope) zeroInt32s(n int64) *ts.Tensor {
	return s.do("zeros", func() (*ts.Tensor, error) { return ts.Zeros([]int64{n}, gotch.Int, gotch.CPU) })
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
