package encoder

import (
	"errors"
	"fmt"
	"math"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"
	"golang.org/x/sys/cpu"

	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/train"
)

// Precision is the number format of a model's layers.
type Precision string

// The precisions. Auto is bf16 on a GPU or a CPU with bf16 dot products, else fp32. Int8 is for scoring on a CPU alone.
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
	return gotch.Float, p, fmt.Errorf("encoder: unknown precision %q here; use auto, fp32 or bf16, or int8 where a model only scores", p)
}

// Precisions are those in which a model can be loaded here.
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
	fused     *fused // in place of the layers of net; nil where there is none
	params    []param
}

// Load reads a checkpoint's weights. Models of the same Runtime go on scoring meanwhile. A base model without a
// classifier gets a fresh one drawn from a fixed seed: its scores mean nothing until it is trained, so ask
// checkpoint.HasClassifier before serving it.
//
// Int8 takes longer: it reads the weights as float32, scores built-in texts with both, which needs the checkpoint's
// tokenizer, and fails with ErrPrecision when scores move further than RuntimeOptions.PrecisionLimit.
func (r *Runtime) Load(ckpt *checkpoint.Checkpoint, precision Precision) (*Model, error) {
	if precision == Int8 {
		return r.loadInt8(ckpt)
	}
	m, err := r.loadPlain(ckpt, precision)
	if err != nil || !fusable(m.net) {
		return m, err
	}
	if err := m.fuse(m.packFloats); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// loadPlain loads a model that is not fused.
func (r *Runtime) loadPlain(ckpt *checkpoint.Checkpoint, precision Precision) (*Model, error) {
	kind, precision, err := r.resolve(precision)
	if err != nil {
		return nil, err
	}
	m := &Model{runtime: r, precision: precision}
	if m.net, m.params, err = loadNetwork(r, ckpt, kind, 0); err != nil {
		return nil, err
	}
	return m, nil
}

// Bytes is the memory that the weights of a checkpoint take when they are loaded in a precision. It is the GPU's when the
// Runtime is there; loading then takes as much as the largest tensor of main memory as well.
// Int8 needs as much as FP32 while it is loaded, which is what is told of it.
func (r *Runtime) Bytes(ckpt *checkpoint.Checkpoint, precision Precision) (int64, error) {
	if precision == Int8 {
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

// Precision is the one in use: FP32, BF16 or Int8.
func (m *Model) Precision() Precision { return m.precision }

// MaxLength is the longest sequence that the model takes, special tokens included.
func (m *Model) MaxLength() int { return m.net.maxLength() }

// Margins returns for each sequence of token ids (special tokens included) the margin
// logit(violation) - logit(compliant), so that g_-1 = sigmoid(margin). The sequences need no padding and no order.
func (m *Model) Margins(batch [][]int32) ([]float32, error) {
	logits, err := m.Logits(batch)
	if err != nil {
		return nil, err
	}
	margins := make([]float32, len(logits))
	for i, z := range logits {
		margins[i] = z[0] - z[1]
	}
	return margins, nil
}

// Logits returns for each sequence the two logits, violation first.
func (m *Model) Logits(batch [][]int32) ([][2]float32, error) {
	p, err := m.net.pack(batch)
	if err != nil || len(batch) == 0 {
		return nil, err
	}
	rows := make([][]float32, len(batch))
	err = m.runtime.score(p, func() error {
		defer withoutGradients()()
		return m.infer(p, rows)
	})
	return pairs(rows), err
}

// encode computes the last hidden state of each sequence's first token, [sequences, hidden] in float32.
func (m *Model) encode(g *graph, p *packed) *ts.Tensor {
	if m.fused != nil {
		return m.fused.encode(g, p)
	}
	return m.net.encode(g, p, dropouts{})
}

// infer puts the logits of a packed batch into rows, in the caller's order. Call it withoutGradients.
func (m *Model) infer(p *packed, rows [][]float32) error {
	p.round()
	return p.collect(rows, 2, m.net.device, func(g *graph) *ts.Tensor {
		return m.net.classify(g, m.encode(g, p), dropouts{})
	})
}

// infer runs a packed batch in evaluation mode and puts its output into rows, in the caller's order. Call it
// withoutGradients.
func (n *network) infer(p *packed, of output, rows [][]float32) error {
	p.round()
	return p.collect(rows, n.width(of), n.device, func(g *graph) *ts.Tensor { return n.output(g, p, dropouts{}, of) })
}

// collect puts what f computes of each sequence, [sequences, width], into rows.
func (p *packed) collect(rows [][]float32, width int, device gotch.Device, f func(g *graph) *ts.Tensor) error {
	var g graph
	defer g.drop()
	out := g.rows(f(&g), 0, int64(len(p.order)))
	values := g.values(out, width*len(p.order), device)
	if g.err != nil {
		return g.err
	}
	return p.unpack(values, rows)
}

// unpack puts the packed output back in the caller's order.
func (p *packed) unpack(values []float32, rows [][]float32) error {
	width := len(values) / len(p.order)
	for k, i := range p.order {
		rows[i] = values[k*width : (k+1)*width]
		for _, v := range rows[i] {
			if v != v || math.IsInf(float64(v), 0) {
				return fmt.Errorf("encoder: the model gave %v for sequence %d: %w", v, i, train.ErrNotFinite)
			}
		}
	}
	return nil
}

// pairs views rows of two logits as such.
func pairs(rows [][]float32) [][2]float32 {
	out := make([][2]float32, len(rows))
	for i, row := range rows {
		if len(row) == 2 {
			out[i] = [2]float32(row)
		}
	}
	return out
}

// Close frees the weights.
func (m *Model) Close() error {
	return m.runtime.do(func() error { return dropParams(m.params) })
}
