package encoder

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"

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

// loadInt8 loads a model with int8 layers. If the runtime has a directory of such models, it takes the model from there,
// or puts it there; a directory that cannot be read or written only costs time.
func (r *Runtime) loadInt8(ckpt *checkpoint.Checkpoint) (*Model, error) {
	if err := r.supportsInt8(ckpt.Config); err != nil {
		return nil, err
	}
	file, err := r.int8File(ckpt)
	if err != nil {
		return nil, err
	}
	if m, err := r.openInt8(ckpt, file); err == nil || errors.Is(err, ErrPrecision) {
		return m, err
	}
	tok, err := tokenizer.Load(ckpt.Dir)
	if err != nil {
		return nil, fmt.Errorf("encoder: precision int8 needs the model's tokenizer for its built-in texts: %w", err)
	}
	var checks []rewardmodel.Sequence
	for _, text := range int8CheckTexts {
		checks = append(checks, rewardmodel.Sequence{IDs: tok.Frame(tok.IDs(text))})
	}
	m, l, moved, err := r.buildInt8(ckpt, checks)
	if err != nil || r.int8Dir == "" {
		return m, err
	}
	file.moved = moved
	if r.int8Dir.write(file, l.memory) == nil {
		if shared, err := r.openInt8(ckpt, file); err == nil {
			return shared, m.Close()
		}
	}
	return m, nil
}

// supportsInt8 returns why this machine, or a model of that configuration, does not support int8.
func (r *Runtime) supportsInt8(cfg checkpoint.Config) error {
	if err := r.hasInt8(); err != nil {
		return fmt.Errorf("encoder: precision int8: %w", err)
	}
	if cfg.Disentangled.Relative || cfg.ModelType == checkpoint.ModernBert {
		return fmt.Errorf("encoder: precision int8 does not support %s; use bf16 or fp32", cfg.ModelType)
	}
	return nil
}

// int8File describes the file of a model. Its key depends on all files of the checkpoint, on the built-in texts, and on
// the version of the arithmetic.
func (r *Runtime) int8File(ckpt *checkpoint.Checkpoint) (int8File, error) {
	if r.int8Dir == "" {
		return int8File{}, nil
	}
	content, err := ckpt.Content(context.Background())
	if err != nil {
		return int8File{}, err
	}
	l := layoutOf(&Model{runtime: r}, ckpt)
	l.build()
	return int8File{key: sha256.Sum256(fmt.Appendf(nil, "%d %x %q", numericsVersion, content, int8CheckTexts)), size: l.used}, nil
}

// layoutOf is the layout of a checkpoint, with neither memory nor weights.
func layoutOf(m *Model, ckpt *checkpoint.Checkpoint) *int8Layout {
	return &int8Layout{fuser: &fuser{model: m}, cfg: ckpt.Config, aspects: len(ckpt.Manifest.AspectList())}
}

// openInt8 loads a model from its file.
func (r *Runtime) openInt8(ckpt *checkpoint.Checkpoint, file int8File) (*Model, error) {
	mapped, content, err := r.int8Dir.open(&file)
	if err != nil {
		return nil, err
	}
	m := &Model{runtime: r, precision: Int8, mapped: mapped}
	m.net = &network{cfg: ckpt.Config, device: r.device, kind: gotch.Float, stream: gotch.Float, scale: scoreScale(ckpt.Config), contexts: ckpt.Manifest.Context}
	for _, a := range ckpt.Manifest.AspectList() {
		m.net.aspects = append(m.net.aspects, a.Name)
	}
	err = file.moved.check(Int8, r.limit)
	if err == nil {
		l := layoutOf(m, ckpt)
		l.memory = content
		m.useInt8(l.build())
		err = l.err
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// loadInt8With is loadInt8 without a file, with the given tokenized check texts.
func (r *Runtime) loadInt8With(ckpt *checkpoint.Checkpoint, checks []rewardmodel.Sequence) (*Model, error) {
	if err := r.supportsInt8(ckpt.Config); err != nil {
		return nil, err
	}
	m, _, _, err := r.buildInt8(ckpt, checks)
	return m, err
}

// buildInt8 quantizes a model, in memory of its own, and validates its scores on the check texts. With context, each text
// is also a reply to the preceding one.
func (r *Runtime) buildInt8(ckpt *checkpoint.Checkpoint, checks []rewardmodel.Sequence) (*Model, *int8Layout, movement, error) {
	m, err := r.loadPlain(ckpt, FP32)
	if err != nil {
		return nil, nil, movement{}, err
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
	l := layoutOf(m, ckpt)
	moved, err := m.toInt8(l, checks)
	if err == nil {
		err = moved.check(Int8, r.limit)
	}
	if err != nil {
		return nil, nil, movement{}, errors.Join(err, m.Close())
	}
	return m, l, moved, nil
}

// toInt8 replaces the float32 network of m. Everything between the matrix multiplications stays float32.
func (m *Model) toInt8(l *int8Layout, checks []rewardmodel.Sequence) (movement, error) {
	exact, err := m.Margins(checks)
	if err != nil {
		return movement{}, err
	}
	var weights []*ts.Tensor
	for _, p := range m.params {
		weights = append(weights, p.tensor)
	}
	l.build()
	l.memory, l.from = l.allocate(l.used), m.net
	f := l.build()
	l.free(weights...)
	if l.err != nil {
		return movement{}, l.err
	}
	m.useInt8(f)
	got, err := m.Margins(checks)
	return moved(len(checks), exact, got), err
}

// useInt8 replaces the network of m by f.
func (m *Model) useInt8(f *fused) {
	if f == nil {
		return
	}
	net := m.net
	m.net = &network{cfg: net.cfg, device: net.device, kind: net.kind, stream: net.stream, scale: net.scale, contexts: net.contexts, aspects: net.aspects}
	f.net, f.kind, f.threads = m.net, m.net.kind, m.runtime.threads
	m.fused, m.precision = f, Int8
	returnMemory()
}

// movement is by how much int8 moves the violations of check texts.
type movement struct {
	mean, largest float64
	texts         int
}

// moved compares the margins of check texts, of every aspect, with those in fp32.
func moved(texts int, exact, got []float32) movement {
	m := movement{texts: texts}
	for i := range exact {
		d := math.Abs(logistic.Sigmoid(float64(exact[i])) - logistic.Sigmoid(float64(got[i])))
		m.mean, m.largest = m.mean+d/float64(len(exact)), max(m.largest, d)
	}
	return m
}

func (m movement) check(p Precision, limit float64) error {
	if m.mean <= limit && m.largest <= 10*limit {
		return nil
	}
	return fmt.Errorf("%w: precision %s moves the violation of %d built-in texts by %.3f on average (limit %g) and by %.3f at most (limit %g); use bf16 or fp32",
		ErrPrecision, p, m.texts, m.mean, limit, m.largest, 10*limit)
}
