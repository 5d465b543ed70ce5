package encoder

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"

	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/encoder/packedweights"
)

// loadPanels loads a model whose layers are computed in panels, in int8 or bf16. If the runtime has a directory of such
// models, it takes the model from there, or puts it there; a directory that cannot be read or written, or that another user
// can write, only costs time.
func (r *Runtime) loadPanels(ckpt *checkpoint.Checkpoint, p Precision) (*Model, error) {
	file, err := r.packedFile(ckpt, p)
	if err != nil {
		return nil, err
	}
	m, err := r.openPacked(ckpt, p, file)
	if err == nil || errors.Is(err, ErrPrecision) {
		return m, err
	}
	r.warnUntrusted(err)
	m, l, deviation, err := r.buildPanels(ckpt, p)
	if err != nil || r.packedDir == "" {
		return m, err
	}
	if r.packedDir.Write(file, l.memory, deviation) == nil {
		if shared, err := r.openPacked(ckpt, p, file); err == nil {
			return shared, m.Close()
		}
	}
	return m, nil
}

// warnUntrusted reports that another user can write a file or the directory. Any other reason for which there is no file is
// no concern of the operator.
func (r *Runtime) warnUntrusted(err error) {
	if _, is := errors.AsType[*packedweights.UntrustedError](err); is && r.warn != nil {
		r.warn(err)
	}
}

// packedFile describes the file of a model. Its key depends on all files of the checkpoint, on the precision, on the
// built-in texts, and on the version of the arithmetic.
func (r *Runtime) packedFile(ckpt *checkpoint.Checkpoint, p Precision) (packedweights.File, error) {
	if r.packedDir == "" {
		return packedweights.File{}, nil
	}
	content, err := ckpt.Content(context.Background())
	if err != nil {
		return packedweights.File{}, err
	}
	l := layoutOf(&Model{runtime: r}, ckpt, p)
	l.build()
	key := sha256.Sum256(fmt.Appendf(nil, "%d %s %x %q", numericsVersion, p, content, int8CheckTexts))
	return packedweights.File{Key: key, Precision: string(p), Size: l.used}, nil
}

// layoutOf is the layout of a checkpoint, with neither memory nor weights.
func layoutOf(m *Model, ckpt *checkpoint.Checkpoint, p Precision) *panelLayout {
	return &panelLayout{fuser: &fuser{model: m}, cfg: ckpt.Config, aspects: len(ckpt.Manifest.AspectList()), precision: p}
}

// openPacked loads a model from its file.
func (r *Runtime) openPacked(ckpt *checkpoint.Checkpoint, p Precision, file packedweights.File) (*Model, error) {
	mapping, err := r.packedDir.Open(file)
	if err != nil {
		return nil, err
	}
	m := &Model{runtime: r, precision: p, mapping: mapping}
	m.net = &network{cfg: ckpt.Config, device: r.device, kind: gotch.Float, stream: gotch.Float, scale: scoreScale(ckpt.Config), contexts: ckpt.Manifest.Context}
	for _, a := range ckpt.Manifest.AspectList() {
		m.net.aspects = append(m.net.aspects, a.Name)
	}
	err = checkDeviation(mapping.Deviation, p, r.limit)
	if err == nil {
		l := layoutOf(m, ckpt, p)
		l.memory = mapping.Weights
		m.usePanels(l.build())
		err = l.err
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// buildPanels lays out a model in memory of its own; an int8 model is also validated, as buildInt8 describes.
func (r *Runtime) buildPanels(ckpt *checkpoint.Checkpoint, p Precision) (*Model, *panelLayout, packedweights.Deviation, error) {
	if p == Int8 {
		checks, err := int8Checks(ckpt)
		if err != nil {
			return nil, nil, packedweights.Deviation{}, err
		}
		return r.buildInt8(ckpt, checks)
	}
	m, err := r.loadPlain(ckpt, p)
	if err != nil {
		return nil, nil, packedweights.Deviation{}, err
	}
	l := layoutOf(m, ckpt, p)
	if err := m.toPanels(l); err != nil {
		return nil, nil, packedweights.Deviation{}, errors.Join(err, m.Close())
	}
	return m, l, packedweights.Deviation{}, nil
}

// toPanels replaces the network of m by one that is computed in panels.
func (m *Model) toPanels(l *panelLayout) error {
	var weights []*ts.Tensor
	for _, p := range m.params {
		weights = append(weights, p.tensor)
	}
	l.build()
	l.memory, l.from = l.allocate(l.used), m.net
	f := l.build()
	l.free(weights...)
	if l.err != nil {
		return l.err
	}
	m.usePanels(f)
	return nil
}

// usePanels replaces the network of m by f.
func (m *Model) usePanels(f *fused) {
	if f == nil {
		return
	}
	net := m.net
	m.net = &network{cfg: net.cfg, device: net.device, kind: gotch.Float, stream: gotch.Float, scale: net.scale, contexts: net.contexts, aspects: net.aspects}
	f.net, f.kind, f.threads = m.net, m.net.kind, m.runtime.threads
	m.fused = f
	returnMemory()
}
