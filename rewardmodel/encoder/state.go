package encoder

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"

	"assay/internal/durable"
	"assay/rewardmodel/checkpoint"
)

// stateMagic starts a learner's state file. It is followed by the optimizer's step, the number of parameters, and for
// each parameter the number of elements and then weights, first and second moments as little-endian float32. A CRC-32 of
// all preceding bytes ends the file.
const stateMagic = "assay learner state 1\n"

var errState = errors.New("not a complete learner state of this model; remove the state directory to start from scratch")

// SaveState writes weights, moments and step to file and syncs it to disk. An existing file is replaced when the new one
// is complete.
func (l *Learner) SaveState(file string) error {
	err := durable.WriteTo(file, 0o644, func(w io.Writer) error {
		sum := crc32.NewIEEE()
		if err := l.runtime.do(func() error { return l.writeState(io.MultiWriter(w, sum)) }); err != nil {
			return err
		}
		return binary.Write(w, binary.LittleEndian, sum.Sum32())
	})
	if err != nil {
		return fmt.Errorf("encoder: save state: %w", err)
	}
	return nil
}

func (l *Learner) writeState(w io.Writer) error {
	defer withoutGradients()()
	if _, err := io.WriteString(w, stateMagic); err != nil {
		return err
	}
	if err := binary.Write(w, binary.LittleEndian, []uint64{uint64(l.adam.step), uint64(len(l.params))}); err != nil {
		return err
	}
	for i, p := range l.params {
		n := elements(p.tensor)
		if err := binary.Write(w, binary.LittleEndian, uint64(n)); err != nil {
			return err
		}
		for _, t := range []*ts.Tensor{p.tensor, l.adam.moments[i].first, l.adam.moments[i].second} {
			values, err := l.read(t, n)
			if err != nil {
				return err
			}
			if _, err := w.Write(asBytes(values)); err != nil {
				return err
			}
		}
	}
	return nil
}

// read returns the n elements of a tensor.
func (l *Learner) read(t *ts.Tensor, n int) ([]float32, error) {
	var scope tensorScope
	defer scope.drop()
	detached := scope.do("detach", func() (*ts.Tensor, error) { return t.Detach(false) })
	return scope.values(detached, n, l.net.device), scope.err
}

// LoadState restores the state that SaveState wrote. A file that is truncated, damaged or of another model is an error.
func (l *Learner) LoadState(file string) error {
	if err := checkSum(file); err != nil {
		return fmt.Errorf("encoder: %s: %w", file, err)
	}
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("encoder: %w", err)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	if err := l.runtime.do(func() error { return l.readState(r) }); err != nil {
		return fmt.Errorf("encoder: %s: %w", file, err)
	}
	return nil
}

func (l *Learner) readState(r io.Reader) error {
	defer withoutGradients()()
	magic := make([]byte, len(stateMagic))
	var head [2]uint64
	if _, err := io.ReadFull(r, magic); err != nil || string(magic) != stateMagic {
		return errState
	}
	if err := binary.Read(r, binary.LittleEndian, &head); err != nil || head[1] != uint64(len(l.params)) {
		return errState
	}
	for i, p := range l.params {
		var n uint64
		if err := binary.Read(r, binary.LittleEndian, &n); err != nil || n != uint64(elements(p.tensor)) {
			return errState
		}
		for _, t := range []*ts.Tensor{p.tensor, l.adam.moments[i].first, l.adam.moments[i].second} {
			values := make([]float32, n)
			if _, err := io.ReadFull(r, asBytes(values)); err != nil {
				return errState
			}
			if err := l.write(t, values); err != nil {
				return err
			}
			if p.tensor == l.net.word && t == l.adam.moments[i].second {
				l.wordRows.restore(values, l.net.cfg.HiddenSize)
			}
		}
	}
	l.adam.step = int(head[0])
	return nil
}

// write replaces the values of a tensor.
func (l *Learner) write(t *ts.Tensor, values []float32) error {
	var scope tensorScope
	defer scope.drop()
	from := scope.float32s(values, gotch.CPU, int64(len(values)))
	flat := scope.do("view", func() (*ts.Tensor, error) { return t.View([]int64{-1}, false) })
	scope.copy(flat, from)
	return scope.err
}

func checkSum(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < int64(len(stateMagic)+4) {
		return errState
	}
	sum := crc32.NewIEEE()
	if _, err := io.CopyN(sum, f, info.Size()-4); err != nil {
		return err
	}
	var stored uint32
	if err := binary.Read(f, binary.LittleEndian, &stored); err != nil || stored != sum.Sum32() {
		return errState
	}
	return nil
}

func elements(t *ts.Tensor) int { return int(t.Numel()) }

// Config returns the configuration of the model that Tensors returns: a classifier with two labels per aspect, violation
// first.
func (l *Learner) Config() checkpoint.Config {
	cfg := l.net.cfg
	cfg.NumLabels, cfg.Labels = 2*len(l.net.aspects), checkpoint.AspectLabels(l.net.aspects)
	return cfg
}

// Aspects returns the names of the aspects, in the order of the logits.
func (l *Learner) Aspects() []string { return slices.Clone(l.net.aspects) }

// Tensors returns the weights for checkpoint.Write with Config, converted to dtype; with I8, what cannot be quantized is
// BF16. They are valid until the learner's next step.
func (l *Learner) Tensors(dtype checkpoint.DType) ([]checkpoint.Tensor, error) {
	quantize := dtype == checkpoint.I8
	if quantize {
		dtype = checkpoint.BF16
	}
	kind, err := dtypeOf(dtype)
	if err != nil {
		return nil, err
	}
	specs := map[string]checkpoint.TensorSpec{}
	for _, s := range checkpoint.Specs(l.Config(), true) {
		specs[s.Name] = s
	}
	var tensors []checkpoint.Tensor
	for _, p := range l.params {
		for part, name := range p.names {
			shape := specs[name].Shape
			if quantize && checkpoint.Quantizable(specs[name]) {
				values, err := l.values(p, part, shape)
				if err != nil {
					return nil, err
				}
				tensors = append(tensors, checkpoint.Quantize(name, shape, values))
				continue
			}
			tensors = append(tensors, checkpoint.Tensor{Name: name, DType: dtype, Shape: shape,
				WriteTo: func(w io.Writer) error {
					return l.runtime.do(func() error { return l.writeTensor(w, p, part, shape, kind) })
				}})
		}
	}
	return tensors, nil
}

// values copies the part-th tensor of a parameter.
func (l *Learner) values(p param, part int, shape []int) ([]float32, error) {
	var mem bytes.Buffer
	err := l.runtime.do(func() error { return l.writeTensor(&mem, p, part, shape, gotch.Float) })
	values := make([]float32, mem.Len()/4)
	copy(asBytes(values), mem.Bytes())
	return values, err
}

// writeTensor writes the part-th tensor of a parameter as kind.
func (l *Learner) writeTensor(w io.Writer, p param, part int, shape []int, kind gotch.DType) error {
	defer withoutGradients()()
	var scope tensorScope
	defer scope.drop()
	rows := int64(shape[0])
	t := scope.rows(p.tensor, int64(part)*rows, rows)
	t = scope.toCPU(scope.cast(t, kind), l.net.device)
	t = scope.do("contiguous", func() (*ts.Tensor, error) { return t.Contiguous(false) })
	dims := make([]int64, len(shape))
	for i, d := range shape {
		dims[i] = int64(d)
	}
	mem := scope.bytes(t, int(kind.Size()), dims)
	if scope.err != nil {
		return scope.err
	}
	_, err := w.Write(mem)
	return err
}
