package encoder

// #include "panels.h"
import "C"

import (
	"fmt"
	"math"
	"math/rand/v2"
	"unsafe"

	"assay/rewardmodel/checkpoint"
)

// panelLayout lays out all that a model in panels reads, its embeddings, norms, layers and classifier, one after another in
// one piece of memory, each aligned to 64 bytes. The configuration alone determines where each of them is, so that the
// memory can be that of a file (packed_load.go).
type panelLayout struct {
	cfg       checkpoint.Config
	aspects   int
	precision Precision

	memory []byte                 // nil: only measure
	used   int                    // of the memory, so far
	from   *checkpoint.Checkpoint // whose weights to write to the memory; nil: they are there
	err    error                  // the first
}

// layoutOf is the layout of a checkpoint, with neither memory nor weights.
func layoutOf(ckpt *checkpoint.Checkpoint, p Precision) *panelLayout {
	return &panelLayout{cfg: ckpt.Config, aspects: len(ckpt.Manifest.AspectList()), precision: p}
}

// measure returns the bytes of the layout.
func (l *panelLayout) measure() int {
	l.memory, l.used = nil, 0
	l.lay()
	return l.used
}

// build lays out a model in memory; with from, it writes the weights there. The model's layers have to be freed.
func (l *panelLayout) build(memory []byte) (*panelModel, error) {
	l.memory, l.used = memory, 0
	m, layers := l.lay()
	if l.err != nil {
		return nil, l.err
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&layers[0])), len(layers)*C.sizeof_panel_layer)
	if m.layers, l.err = allocate(len(bytes)); l.err != nil {
		return nil, l.err
	}
	copy(m.layers.bytes, bytes)
	m.model.layers = (*C.panel_layer)(unsafe.Pointer(&m.layers.bytes[0]))
	return m, nil
}

func (l *panelLayout) lay() (*panelModel, []C.panel_layer) {
	cfg, hidden, feed := l.cfg, l.cfg.HiddenSize, l.cfg.Intermediate
	m := &panelModel{level: C.panel_best(isHalf(l.precision)), model: C.panel_batch{
		half:   isHalf(l.precision),
		hidden: C.int64_t(hidden), heads: C.int64_t(cfg.Heads), intermediate: C.int64_t(feed), layer_count: C.int64_t(cfg.Layers),
		function: function(cfg.HiddenAct), scale: C.float(scoreScale(cfg)[0]), epsilon: C.float(cfg.LayerNormEps),
	}}
	m.model.word = l.table(cfg.WordEmbeddings(), cfg.Vocab*hidden)
	if cfg.HasPositions() {
		m.model.position = l.table("embeddings.position_embeddings.weight", cfg.MaxPositions*hidden)
	}
	if cfg.TypeVocab > 0 {
		m.model.token_type = l.table(tokenTypeEmbeddings, cfg.TypeVocab*hidden)
	}
	m.model.embed_norm = l.norm("embeddings.LayerNorm", checkpoint.F32)
	layers := make([]C.panel_layer, cfg.Layers)
	for i := range layers {
		to, at := &layers[i], fmt.Sprintf("encoder.layer.%d.", i)
		projections := under(at, cfg.Projections())
		if i == cfg.Layers-1 {
			to.query, to.key_value = l.linear(projections[:1], hidden, hidden), l.linear(projections[1:], hidden, hidden)
		} else {
			to.query = l.linear(projections, hidden, hidden)
		}
		to.attended = l.linear([]string{at + "attention.output.dense"}, hidden, hidden)
		to.intermediate = l.linear([]string{at + "intermediate.dense"}, hidden, feed)
		to.output = l.linear([]string{at + "output.dense"}, feed, hidden)
		to.attention_norm = l.norm(at+"attention.output.LayerNorm", l.stored())
		to.output_norm = l.norm(at+"output.LayerNorm", l.stored())
	}
	l.classifier(m)
	return m, layers
}

// stored is the type of the weights of layers and embeddings, before those of int8 are quantized.
func (l *panelLayout) stored() checkpoint.DType {
	if l.precision == BF16 {
		return checkpoint.BF16
	}
	return checkpoint.F32
}

// take returns the next part of the memory, or nil without memory or after an error.
func (l *panelLayout) take(bytes int) []byte {
	at := l.used
	l.used += (bytes + 63) / 64 * 64
	if l.memory == nil || l.err != nil {
		return nil
	}
	return l.memory[at : at+bytes]
}

// read writes the named tensors of the checkpoint one after another, as the given type.
func (l *panelLayout) read(to []byte, as checkpoint.DType, names ...string) {
	part := len(to) / len(names)
	for i, name := range names {
		if l.err == nil {
			l.err = l.from.ReadAs(name, as, to[i*part:(i+1)*part])
		}
	}
}

// floats reads the named tensors, of n values in all, rounded to the type first.
func (l *panelLayout) floats(n int, rounded checkpoint.DType, names ...string) []float32 {
	values := make([]float32, n)
	if rounded == checkpoint.F32 {
		l.read(asBytes(values), rounded, names...)
		return values
	}
	halves := make([]uint16, n)
	l.read(unsafe.Slice((*byte)(unsafe.Pointer(&halves[0])), 2*n), rounded, names...)
	for i, h := range halves {
		values[i] = math.Float32frombits(uint32(h) << 16)
	}
	return values
}

// table lays out the n values of embeddings.
func (l *panelLayout) table(name string, n int) unsafe.Pointer {
	to := l.take(n * l.stored().Size())
	if to == nil {
		return nil
	}
	if l.from != nil {
		l.read(to, l.stored(), name)
	}
	return unsafe.Pointer(&to[0])
}

// norm lays out a normalization, rounded to the type; the columns are rounded up to vectors of 16.
func (l *panelLayout) norm(name string, rounded checkpoint.DType) C.panel_norm {
	n := l.cfg.HiddenSize
	floats := func(name string) *C.float {
		to := l.take(4 * roundTo16(n))
		if to == nil {
			return nil
		}
		if l.from != nil {
			clear(to[copy(to, asBytes(l.floats(n, rounded, name))):])
		}
		return (*C.float)(unsafe.Pointer(&to[0]))
	}
	return C.panel_norm{weight: floats(name + ".weight"), bias: floats(name + ".bias")}
}

// linear packs linear layers with the same inputs, each with the given number of outputs, as one.
func (l *panelLayout) linear(names []string, in, each int) C.panel_linear {
	out, half := len(names)*each, isHalf(l.precision)
	to := l.take(int(C.panel_bytes(half, C.int64_t(in), C.int64_t(out))))
	if to == nil {
		return C.panel_linear{}
	}
	memory := unsafe.Pointer(&to[0])
	if l.from == nil {
		return C.panel_at(half, memory, C.int64_t(in), C.int64_t(out))
	}
	weights, biases := make([]string, len(names)), make([]string, len(names))
	for i, name := range names {
		weights[i], biases[i] = name+".weight", name+".bias"
	}
	bias := l.floats(out, l.stored(), biases...)
	if half != 0 {
		halves := make([]uint16, out*in)
		l.read(unsafe.Slice((*byte)(unsafe.Pointer(&halves[0])), 2*len(halves)), checkpoint.BF16, weights...)
		if l.err != nil {
			return C.panel_linear{}
		}
		return C.bf16_pack(memory, (*C.uint16_t)(&halves[0]), (*C.float)(&bias[0]), C.int64_t(in), C.int64_t(out))
	}
	weight := l.floats(out*in, checkpoint.F32, weights...)
	if l.err != nil {
		return C.panel_linear{}
	}
	rounded, scales := quantize(weight, in)
	return C.int8_pack(memory, (*C.int8_t)(&rounded[0]), (*C.float)(&scales[0]), (*C.float)(&bias[0]), C.int64_t(in), C.int64_t(out))
}

// classifier lays out the layers after the encoder.
func (l *panelLayout) classifier(m *panelModel) {
	hidden := l.cfg.HiddenSize
	reader := classifierReader{ckpt: l.from, rng: rand.New(rand.NewPCG(0, 0))}
	m.pool = l.dense(hidden, hidden, (&network{cfg: l.cfg}).poolActivation(), reader.pool)
	m.out = l.dense(hidden, 2*l.aspects, "", func() (classifierWeights, error) {
		w, _, err := reader.out()
		return w, err
	})
}

func (l *panelLayout) dense(in, out int, activation string, read func() (classifierWeights, error)) panelDense {
	wide := roundTo16(out)
	weight, bias := l.take(4*in*wide), l.take(4*wide)
	if bias == nil {
		return panelDense{}
	}
	if l.from != nil {
		w, err := read()
		if err != nil {
			l.err = err
			return panelDense{}
		}
		copy(weight, asBytes(transposed(w.weight, in, out)))
		clear(bias[copy(bias, asBytes(w.bias)):])
	}
	return panelDense{in: in, out: out, weight: (*C.float)(unsafe.Pointer(&weight[0])), bias: (*C.float)(unsafe.Pointer(&bias[0])), function: function(activation)}
}

// transposed lays out weights [out, in] as [in, out rounded up to 16], with zeros.
func transposed(weight []float32, in, out int) []float32 {
	wide := roundTo16(out)
	to := make([]float32, in*wide)
	for row := range out {
		for column := range in {
			to[column*wide+row] = weight[row*in+column]
		}
	}
	return to
}

func roundTo16(n int) int { return (n + 15) / 16 * 16 }
