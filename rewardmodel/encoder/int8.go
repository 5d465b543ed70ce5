package encoder

// #include "panels.h"
import "C"

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/encoder/packedweights"
	"assay/rewardmodel/logistic"
	"assay/rewardmodel/tokenizer"
)

// ErrPrecision is returned by Load when a precision would move the scores of a model too far.
var ErrPrecision = errors.New("encoder: the precision moves the scores of this model too far")

// DefaultPrecisionLimit is the maximum mean change that int8 may make to the violation of the built-in check texts. The
// maximum change of a single text is ten times as large.
const DefaultPrecisionLimit = 0.01

// hasInt8 returns why this machine does not support int8, or nil if it does.
func (r *Runtime) hasInt8() error {
	switch {
	case r.device.IsCuda():
		return errors.New("int8 runs only on a CPU; use the device cpu, or precision bf16")
	case C.panel_best(0) == C.int8_portable:
		return errors.New("the processor has no AVX2 instructions, or the compiler of this binary did not support them; use precision bf16 or fp32")
	}
	return nil
}

// supportsInt8 returns why this machine, or a model of that configuration, does not support int8.
func (r *Runtime) supportsInt8(cfg checkpoint.Config) error {
	if err := r.hasInt8(); err != nil {
		return fmt.Errorf("encoder: precision int8: %w", err)
	}
	if !panelsSupport(cfg) {
		return fmt.Errorf("encoder: precision int8 does not support %s; use bf16 or fp32", cfg.ModelType)
	}
	return nil
}

// int8Checks are the built-in check texts for a model.
func int8Checks(ckpt *checkpoint.Checkpoint) (checks []rewardmodel.Sequence, err error) {
	tok, err := tokenizer.Load(ckpt.Dir)
	if err != nil {
		return nil, fmt.Errorf("encoder: precision int8 needs the model's tokenizer for its built-in texts: %w", err)
	}
	for _, text := range int8CheckTexts {
		checks = append(checks, rewardmodel.Sequence{IDs: tok.Frame(tok.IDs(text))})
	}
	return checks, nil
}

// loadInt8With builds an int8 model without a file, with the given tokenized check texts.
func (r *Runtime) loadInt8With(ckpt *checkpoint.Checkpoint, checks []rewardmodel.Sequence) (*Model, error) {
	if err := r.supportsInt8(ckpt.Config); err != nil {
		return nil, err
	}
	m, _, err := r.buildInt8(ckpt, checks)
	return m, err
}

// buildInt8 quantizes a model, in memory of its own, and compares its scores of the check texts with those in float32. With
// context, each text is also a reply to the preceding one. Everything between the matrix multiplications stays float32.
func (r *Runtime) buildInt8(ckpt *checkpoint.Checkpoint, checks []rewardmodel.Sequence) (*Model, packedweights.Deviation, error) {
	m, err := r.loadPlain(ckpt, FP32)
	if err != nil {
		return nil, packedweights.Deviation{}, err
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
	exact, err := m.Margins(checks)
	if err = errors.Join(err, m.Close()); err != nil {
		return nil, packedweights.Deviation{}, err
	}
	if m, err = r.layOut(ckpt, Int8); err != nil {
		return nil, packedweights.Deviation{}, err
	}
	var deviation packedweights.Deviation
	got, err := m.Margins(checks)
	if err == nil {
		deviation = deviationOf(len(checks), exact, got)
		err = checkDeviation(deviation, Int8, r.limit)
	}
	if err != nil {
		return nil, packedweights.Deviation{}, errors.Join(err, m.Close())
	}
	return m, deviation, nil
}

// deviationOf compares the margins of check texts, of every aspect, with those in fp32.
func deviationOf(texts int, exact, got []float32) packedweights.Deviation {
	deviation := packedweights.Deviation{Texts: texts}
	for i := range exact {
		d := math.Abs(logistic.Sigmoid(float64(exact[i])) - logistic.Sigmoid(float64(got[i])))
		deviation.Mean, deviation.Max = deviation.Mean+d/float64(len(exact)), max(deviation.Max, d)
	}
	return deviation
}

// checkDeviation fails with ErrPrecision if a precision moves the violations of the check texts too far.
func checkDeviation(d packedweights.Deviation, p Precision, limit float64) error {
	if d.Mean <= limit && d.Max <= 10*limit {
		return nil
	}
	return fmt.Errorf("%w: precision %s moves the violation of %d built-in texts by %.3f on average (limit %g) and by %.3f at most (limit %g); use bf16 or fp32",
		ErrPrecision, p, d.Texts, d.Mean, limit, d.Max, 10*limit)
}

// quantize rounds weight [out, in], which it overwrites, to int8 with one scale per row.
//
// Weights and activations are both multiplied by a Hadamard matrix first. The matrix is orthogonal, so the result of a
// matrix multiplication does not change, but outliers in a few channels are spread over all channels and no longer
// determine the scale (QuaRot, Ashkboos et al. 2024). The weights then have one scale per output and the activations one
// scale per token. The scale of a token depends on that token only, so the rest of the batch has no effect, no value is
// clipped, and no calibration is needed.
func quantize(weight []float32, in int) (rounded []int8, scales []float32) {
	rotate(weight, in)
	rounded, scales = make([]int8, len(weight)), make([]float32, len(weight)/in)
	for n := range scales {
		row := weight[n*in : (n+1)*in]
		var largest float32
		for _, w := range row {
			largest = max(largest, abs(w))
		}
		scale := max(largest/127, 1e-30)
		for k, w := range row {
			rounded[n*in+k] = int8(math.RoundToEven(float64(w / scale)))
		}
		scales[n] = scale / float32(rotation(in)) // normalizes the two Hadamard rotations
	}
	return rounded, scales
}

func abs(v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ (1 << 31)) }

// rotation is the size of the Hadamard blocks that rotate uses: a power of two.
func rotation(columns int) int { return int(C.int8_rotation(C.int64_t(columns))) }

// rotate multiplies each row of v [n, columns] by the Hadamard matrix of size rotation(columns), block by block. Applied
// twice, it returns rotation(columns) times v.
func rotate(v []float32, columns int) {
	C.int8_rotate((*C.float)(unsafe.Pointer(&v[0])), C.int64_t(len(v)/columns), C.int64_t(columns))
}
