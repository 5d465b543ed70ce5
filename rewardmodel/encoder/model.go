package encoder

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"
	"golang.org/x/sys/cpu"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/encoder/packedweights"
	"assay/rewardmodel/train"
)

// Precision is the dtype of a model's layers.
type Precision string

// The precisions. Auto is int8 for scoring with a checkpoint whose weights are, where Int8 is supported; else bf16 on a GPU
// or a CPU with bf16 dot products, else fp32. Int8 is only for scoring on a CPU.
const (
	Auto Precision = "auto"
	FP32 Precision = "fp32"
	BF16 Precision = "bf16"
	Int8 Precision = "int8"
)

func (r *Runtime) resolve(p Precision) (gotch.DType, Precision, error) {
	if p == "" || p == Auto {
		p = FP32
		if r.device.IsCuda() || cpu.X86.HasAVX512BF16 {
			p = BF16
		}
	}
	switch p {
	case FP32:
		return gotch.Float, p, nil
	case BF16:
		return gotch.BFloat16, p, nil
	}
	return gotch.Float, p, fmt.Errorf("encoder: unknown precision %q; use auto, fp32 or bf16, or int8 for scoring only", p)
}

// scoring is the precision in which a checkpoint scores.
func (r *Runtime) scoring(ckpt *checkpoint.Checkpoint, p Precision) Precision {
	if (p == "" || p == Auto) && ckpt.Quantized() && r.supportsInt8(ckpt.Config) == nil {
		return Int8
	}
	return p
}

// Precisions returns the precisions that this machine supports for loading a model.
func (r *Runtime) Precisions() []Precision {
	if r.hasInt8() != nil {
		return []Precision{FP32, BF16}
	}
	return []Precision{FP32, BF16, Int8}
}

// Model scores sequences with a loaded checkpoint. Its methods may be called from any goroutine; calls run one at a
// time on the Runtime's thread.
type Model struct {
	runtime   *Runtime
	precision Precision
	net       *network
	fused     *fused      // replaces the layers of net, or nil
	panels    *panelModel // replaces all tensors of net, or nil
	params    []param
	memory    alignedMemory          // of the weights of panels, unless a file has them
	mapping   *packedweights.Mapping // of that file, or nil
	health    health
}

// Load reads a checkpoint's weights. Other models of the same Runtime continue to score meanwhile. A base model without
// a classifier gets a classification head that is randomly initialized from a fixed seed. Its scores have no meaning
// until it is trained, so check checkpoint.HasClassifier before serving it.
//
// Int8 takes longer: it reads the weights as float32 and scores built-in texts in both precisions, which requires the
// checkpoint's tokenizer. It fails with ErrPrecision when scores change by more than RuntimeOptions.PrecisionLimit; with
// Auto, the model is then loaded in floats.
func (r *Runtime) Load(ckpt *checkpoint.Checkpoint, precision Precision) (*Model, error) {
	if r.scoring(ckpt, precision) != Int8 {
		return r.loadFloats(ckpt, precision)
	}
	if err := r.supportsInt8(ckpt.Config); err != nil {
		return nil, err
	}
	m, err := r.loadPanels(ckpt, Int8)
	if precision != Int8 && errors.Is(err, ErrPrecision) {
		return r.loadFloats(ckpt, precision)
	}
	return m, err
}

// loadFloats loads a model that computes in floats, with its layers laid out for scoring where that is supported.
func (r *Runtime) loadFloats(ckpt *checkpoint.Checkpoint, precision Precision) (*Model, error) {
	_, precision, err := r.resolve(precision)
	if err != nil {
		return nil, err
	}
	if precision == BF16 && r.bf16Panels(ckpt.Config) {
		return r.loadPanels(ckpt, BF16)
	}
	m, err := r.loadPlain(ckpt, precision)
	if err != nil || !r.linear || !fusable(m.net) {
		return m, err
	}
	if err := m.fuse(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// loadPlain loads a model without fusing its layers.
func (r *Runtime) loadPlain(ckpt *checkpoint.Checkpoint, precision Precision) (*Model, error) {
	kind, precision, err := r.resolve(precision)
	if err != nil {
		return nil, err
	}
	m := &Model{runtime: r, precision: precision}
	if m.net, m.params, err = loadNetwork(r, ckpt, kind, changes{context: ckpt.Manifest.Context}); err != nil {
		return nil, err
	}
	return m, nil
}

// Bytes returns the memory that the weights of a checkpoint need in a precision: GPU memory when the Runtime uses a GPU,
// where loading also needs main memory for the largest tensor. For Int8 it returns the bytes of FP32, because loading
// needs that much.
func (r *Runtime) Bytes(ckpt *checkpoint.Checkpoint, precision Precision) (int64, error) {
	if precision = r.scoring(ckpt, precision); precision == Int8 {
		precision = FP32
	}
	kind, _, err := r.resolve(precision)
	if err != nil {
		return 0, err
	}
	var bytes int64
	for _, spec := range checkpoint.Specs(ckpt.Config, true) {
		elements := int64(kind.Size())
		for _, d := range spec.Shape {
			elements *= int64(d)
		}
		bytes += elements
	}
	return bytes, nil
}

// Precision returns the precision in use: FP32, BF16 or Int8.
func (m *Model) Precision() Precision { return m.precision }

// Aspects returns the names of the aspects, in the order of the margins.
func (m *Model) Aspects() []string { return slices.Clone(m.net.aspects) }

// MaxLength returns the maximum length of a sequence in tokens, including special tokens.
func (m *Model) MaxLength() int { return m.net.maxLength() }

// Margins implements rewardmodel.Model: for each sequence and aspect, the margin logit(violation) - logit(compliant), so
// that g_-1 = sigmoid(margin). The sequences are not padded and can be in any order.
func (m *Model) Margins(batch []rewardmodel.Sequence) ([]float32, error) {
	logits, err := m.Logits(batch)
	if err != nil {
		return nil, err
	}
	margins := make([]float32, 0, len(logits)*len(m.net.aspects))
	for _, z := range logits {
		for a := range m.net.aspects {
			margins = append(margins, z[2*a]-z[2*a+1])
		}
	}
	return margins, nil
}

// Logits returns for each sequence two logits per aspect, violation first.
func (m *Model) Logits(batch []rewardmodel.Sequence) ([][]float32, error) {
	rows, err := m.run(batch, m.runtime.watch)
	if m.runtime.watch != nil && len(batch) > 0 {
		m.observe(batch, err)
	}
	return rows, err
}

// observe reports a model that fails on everything.
func (m *Model) observe(batch []rewardmodel.Sequence, err error) {
	if err == nil {
		m.health.succeeded(batch)
		return
	}
	broken := m.health.failed(time.Now(), func(known []rewardmodel.Sequence) error {
		_, err := m.unwatched(known)
		return err
	})
	if broken != nil {
		m.runtime.watch.Broken(broken)
	}
}

// unwatched is Logits for what the CallWatcher does not count.
func (m *Model) unwatched(batch []rewardmodel.Sequence) ([][]float32, error) {
	return m.run(batch, nil)
}

// run scores a batch; watch, unless it is nil, is notified of the forward pass.
func (m *Model) run(batch []rewardmodel.Sequence, watch CallWatcher) ([][]float32, error) {
	p, err := m.net.pack(batch)
	if err != nil || len(batch) == 0 {
		return nil, err
	}
	rows := make([][]float32, len(batch))
	onThread := m.runtime.do
	if m.panels != nil {
		onThread = m.runtime.onThread
	}
	err = onThread(func() error {
		if watch != nil {
			watch.Begin(len(p.order), len(p.ids))
			defer watch.End()
		}
		if m.panels == nil {
			defer withoutGradients()()
			return m.infer(p, rows)
		}
		values, err := m.panels.logits(m.runtime, p)
		if err != nil {
			return err
		}
		return p.unpack(values, rows)
	})
	return rows, err
}

// encode computes the last hidden state of each sequence's first token, [sequences, hidden] in float32.
func (m *Model) encode(scope *tensorScope, p *packed) *ts.Tensor {
	if m.fused != nil {
		return m.fused.encode(scope, p)
	}
	return m.net.encode(scope, p, dropouts{})
}

// classify maps first tokens [sequences, hidden] to logits [sequences, 2*aspects] in float32.
func (m *Model) classify(scope *tensorScope, x *ts.Tensor, sequences int) *ts.Tensor {
	if m.fused != nil {
		return m.fused.classify(scope, x, int64(sequences))
	}
	return m.net.classify(scope, x, dropouts{})
}

// infer writes the logits of a packed batch to rows, in the caller's order, by tensor operations. Call it withoutGradients.
func (m *Model) infer(p *packed, rows [][]float32) error {
	p.round()
	return p.collect(rows, m.net.width(outputLogits), m.net.device, func(scope *tensorScope) *ts.Tensor {
		return m.classify(scope, m.encode(scope, p), len(p.first))
	})
}

// infer runs a packed batch in evaluation mode and writes its output to rows, in the caller's order. Call it
// withoutGradients.
func (n *network) infer(p *packed, of output, rows [][]float32) error {
	p.round()
	return p.collect(rows, n.width(of), n.device, func(scope *tensorScope) *ts.Tensor { return n.output(scope, p, dropouts{}, of) })
}

// collect writes the result of f, [sequences, width], to rows.
func (p *packed) collect(rows [][]float32, width int, device gotch.Device, f func(scope *tensorScope) *ts.Tensor) error {
	var scope tensorScope
	defer scope.drop()
	out := scope.rows(f(&scope), 0, int64(len(p.order)))
	values := scope.values(out, width*len(p.order), device)
	if scope.err != nil {
		return scope.err
	}
	return p.unpack(values, rows)
}

// unpack restores the caller's order of a packed output.
func (p *packed) unpack(values []float32, rows [][]float32) error {
	width := len(values) / len(p.order)
	for k, i := range p.order {
		rows[i] = values[k*width : (k+1)*width]
		for _, v := range rows[i] {
			if v != v || math.IsInf(float64(v), 0) {
				return fmt.Errorf("encoder: the model returned %v for sequence %d: %w", v, i, train.ErrNotFinite)
			}
		}
	}
	return nil
}

// Close frees the weights.
func (m *Model) Close() error {
	return m.runtime.onThread(func() error {
		err := dropParams(m.params)
		if m.panels != nil {
			m.panels.layers.free()
		}
		m.memory.free()
		if m.mapping != nil {
			err = errors.Join(err, m.mapping.Close())
			m.mapping = nil
		}
		return err
	})
}
