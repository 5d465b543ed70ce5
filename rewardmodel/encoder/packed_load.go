package encoder

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

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
	m, deviation, err := r.buildPanels(ckpt, p)
	if err != nil || r.packedDir == "" {
		return m, err
	}
	if r.packedDir.Write(file, m.memory.bytes, deviation) == nil {
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
	key := sha256.Sum256(fmt.Appendf(nil, "%d %s %x %q", numericsVersion, p, content, int8CheckTexts))
	return packedweights.File{Key: key, Precision: string(p), Size: layoutOf(ckpt, p).measure()}, nil
}

// openPacked loads a model from its file.
func (r *Runtime) openPacked(ckpt *checkpoint.Checkpoint, p Precision, file packedweights.File) (*Model, error) {
	mapping, err := r.packedDir.Open(file)
	if err != nil {
		return nil, err
	}
	m := r.withoutWeights(ckpt, p)
	m.mapping = mapping
	if err = checkDeviation(mapping.Deviation, p, r.limit); err == nil {
		m.panels, err = layoutOf(ckpt, p).build(mapping.Weights)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// withoutWeights returns a model in panels that has none yet.
func (r *Runtime) withoutWeights(ckpt *checkpoint.Checkpoint, p Precision) *Model {
	net := &network{cfg: ckpt.Config, device: r.device, contexts: ckpt.Manifest.Context}
	for _, a := range ckpt.Manifest.AspectList() {
		net.aspects = append(net.aspects, a.Name)
	}
	return &Model{runtime: r, precision: p, net: net}
}

// buildPanels lays out a model in memory of its own; an int8 model is also validated, as buildInt8 describes.
func (r *Runtime) buildPanels(ckpt *checkpoint.Checkpoint, p Precision) (*Model, packedweights.Deviation, error) {
	if p == Int8 {
		checks, err := int8Checks(ckpt)
		if err != nil {
			return nil, packedweights.Deviation{}, err
		}
		return r.buildInt8(ckpt, checks)
	}
	m, err := r.layOut(ckpt, p)
	return m, packedweights.Deviation{}, err
}

// layOut reads the weights of a checkpoint into panels, without libtorch.
func (r *Runtime) layOut(ckpt *checkpoint.Checkpoint, p Precision) (*Model, error) {
	if ckpt.Manifest.Context {
		if err := checkContext(ckpt.Config); err != nil {
			return nil, err
		}
	}
	m, l := r.withoutWeights(ckpt, p), layoutOf(ckpt, p)
	var err error
	if m.memory, err = allocate(l.measure()); err != nil {
		return nil, err
	}
	l.from = ckpt
	if m.panels, err = l.build(m.memory.bytes); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	returnMemory()
	return m, nil
}
