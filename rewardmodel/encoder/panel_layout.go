package encoder

// #include "panels.h"
import "C"

import (
	"unsafe"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"

	"assay/rewardmodel/checkpoint"
)

// panelLayout lays out all that a model in panels reads, its embeddings, norms, layers and classifier, one after another in
// one piece of memory, each aligned to 64 bytes. The configuration alone determines where each of them is, so that the
// memory can be that of a file (packed_file.go).
type panelLayout struct {
	*fuser
	cfg       checkpoint.Config
	aspects   int
	precision Precision

	memory []byte   // nil: only measure
	used   int      // of the memory, so far
	from   *network // whose weights to write to the memory; nil: they are there
}

// build lays out a model in l.memory. Without memory, it only sets l.used.
func (l *panelLayout) build() *fused {
	l.used = 0
	cfg, hidden, feed := l.cfg, l.cfg.HiddenSize, l.cfg.Intermediate
	from := network{layers: make([]layer, cfg.Layers)}
	if l.from != nil {
		from = *l.from
	}
	e := &panelEngine{level: C.panel_best(isHalf(l.precision)), model: C.panel_batch{
		half:   isHalf(l.precision),
		hidden: C.int64_t(hidden), heads: C.int64_t(cfg.Heads), intermediate: C.int64_t(feed), layer_count: C.int64_t(cfg.Layers),
		function: function(cfg.HiddenAct), scale: C.float(scoreScale(cfg)[0]), epsilon: C.float(cfg.LayerNormEps),
	}}
	e.model.word = l.table(from.word, cfg.Vocab*hidden)
	if cfg.HasPositions() {
		e.model.position = l.table(from.position, cfg.MaxPositions*hidden)
	}
	if cfg.TypeVocab > 0 {
		e.model.token_type = l.table(from.tokenType, cfg.TypeVocab*hidden)
	}
	e.model.embed_norm = l.norm(from.embedNorm)
	layers := make([]C.panel_layer, cfg.Layers)
	for i, f := range from.layers {
		to := &layers[i]
		if i == cfg.Layers-1 {
			to.query, to.key_value = l.linear(f.qkv, 0, hidden, hidden), l.linear(f.qkv, hidden, 3*hidden, hidden)
		} else {
			to.query = l.linear(f.qkv, 0, 3*hidden, hidden)
		}
		to.attended = l.linear(f.attended, 0, hidden, hidden)
		to.intermediate = l.linear(f.intermediate, 0, feed, hidden)
		to.output = l.linear(f.output, 0, hidden, feed)
		to.attention_norm, to.output_norm = l.norm(f.attentionNorm), l.norm(f.outputNorm)
		if l.from != nil { // early, since they need more memory than all the rest
			l.free(f.qkv.weight, f.attended.weight, f.intermediate.weight, f.output.weight)
		}
	}
	f := &fused{panels: e}
	f.pool = l.classifier(from.pool, hidden, hidden, (&network{cfg: cfg}).poolActivation())
	f.out = l.classifier(from.out, hidden, 2*l.aspects, "")
	if l.memory == nil {
		return nil
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&layers[0])), len(layers)*C.sizeof_panel_layer)
	kept := l.allocate(len(bytes))
	if l.err == nil {
		copy(kept, bytes)
		e.model.layers = (*C.panel_layer)(unsafe.Pointer(&kept[0]))
	}
	return f
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

// table lays out n values of embeddings.
func (l *panelLayout) table(from *ts.Tensor, n int) unsafe.Pointer {
	if l.precision == BF16 {
		return l.padded(from, gotch.BFloat16, n, n)
	}
	return l.padded(from, gotch.Float, n, n)
}

// padded lays out n values of a tensor followed by zeros, up to room values.
func (l *panelLayout) padded(from *ts.Tensor, kind gotch.DType, n, room int) unsafe.Pointer {
	size := int(kind.Size())
	to := l.take(size * room)
	if to == nil {
		return nil
	}
	if l.from != nil {
		l.make(func(scope *tensorScope) []*ts.Tensor {
			whole := scope.do("contiguous", func() (*ts.Tensor, error) { return scope.cast(from, kind).Contiguous(false) })
			clear(to[copy(to, scope.bytes(whole, size, []int64{int64(n)})):])
			return nil
		})
	}
	return unsafe.Pointer(&to[0])
}

// norm rounds the columns up to vectors of 16.
func (l *panelLayout) norm(from norm) C.panel_norm {
	n := l.cfg.HiddenSize
	wide := (n + 15) / 16 * 16
	floats := func(from *ts.Tensor) *C.float { return (*C.float)(l.padded(from, gotch.Float, n, wide)) }
	return C.panel_norm{weight: floats(from.weight), bias: floats(from.bias)}
}

// linear packs rows [first, end) of a linear layer with the given number of inputs, off the libtorch thread.
func (l *panelLayout) linear(from dense, first, end, in int) C.panel_linear {
	out, half := end-first, isHalf(l.precision)
	to := l.take(int(C.panel_bytes(half, C.int64_t(in), C.int64_t(out))))
	if to == nil {
		return C.panel_linear{}
	}
	memory := unsafe.Pointer(&to[0])
	if l.from == nil {
		return C.panel_at(half, memory, C.int64_t(in), C.int64_t(out))
	}
	var weight, bias []float32
	var halves []byte
	l.make(func(scope *tensorScope) []*ts.Tensor {
		rows := scope.rows(from.weight, int64(first), int64(out))
		if half != 0 {
			halves = scope.bytes(rows, 2, []int64{int64(out), int64(in)}) // of the whole weight, which the model keeps
		} else {
			weight = scope.values(rows, out*in, gotch.CPU)
		}
		bias = scope.values(scope.rows(from.bias, int64(first), int64(out)), out, gotch.CPU)
		return nil
	})
	if l.err != nil {
		return C.panel_linear{}
	}
	biases := (*C.float)(unsafe.Pointer(&bias[0]))
	if half != 0 {
		return C.bf16_pack(memory, (*C.uint16_t)(unsafe.Pointer(&halves[0])), biases, C.int64_t(in), C.int64_t(out))
	}
	rounded, scales := quantize(weight, in)
	return C.int8_pack(memory, (*C.int8_t)(unsafe.Pointer(&rounded[0])), (*C.float)(unsafe.Pointer(&scales[0])), biases, C.int64_t(in), C.int64_t(out))
}

// classifier lays out a layer of the classifier, whose tensors are copies.
func (l *panelLayout) classifier(from dense, in, out int, activation string) classifierLayer {
	wide := (out + 15) / 16 * 16
	weight, bias := l.take(4*in*wide), l.take(4*wide)
	if bias == nil {
		return classifierLayer{}
	}
	if l.from != nil {
		c := l.classifierLayer(from, activation)
		l.make(func(scope *tensorScope) []*ts.Tensor {
			copy(weight, scope.bytes(c.weight, 4, []int64{int64(in), int64(wide)}))
			copy(bias, scope.bytes(c.bias, 4, []int64{int64(wide)}))
			return nil
		})
		return c
	}
	c := classifierLayer{in: int64(in), out: int64(out), activation: activation}
	l.make(func(scope *tensorScope) []*ts.Tensor {
		c.weight = scope.float32s(asFloats(weight), gotch.CPU, int64(in), int64(wide))
		c.bias = scope.float32s(asFloats(bias), gotch.CPU, int64(wide))
		return []*ts.Tensor{c.weight, c.bias}
	})
	return c
}

// allocate returns memory that the model owns, aligned to 64 bytes.
func (u *fuser) allocate(bytes int) (memory []byte) {
	u.make(func(scope *tensorScope) []*ts.Tensor {
		t, mem := scope.empty(gotch.Int8, int64(bytes))
		memory = mem
		return []*ts.Tensor{t}
	})
	return memory
}

// asFloats is the inverse of asBytes.
func asFloats(b []byte) []float32 { return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4) }
