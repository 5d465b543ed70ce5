package encoder

// #include "int8.h"
import "C"

import (
	"unsafe"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"

	"assay/rewardmodel/checkpoint"
)

// int8Layout lays out all that an int8 model reads, its embeddings, norms, layers and classifier, one after another in
// one piece of memory, each aligned to 64 bytes. The configuration alone determines where each of them is, so that the
// memory can be that of a file (int8_file.go).
type int8Layout struct {
	*fuser
	cfg     checkpoint.Config
	aspects int

	memory []byte   // nil: only measure
	used   int      // of the memory, so far
	from   *network // whose weights to write to the memory; nil: they are there
}

// build lays out a model in l.memory. Without memory, it only sets l.used.
func (l *int8Layout) build() *fused {
	l.used = 0
	cfg, hidden, feed := l.cfg, l.cfg.HiddenSize, l.cfg.Intermediate
	from := network{layers: make([]layer, cfg.Layers)}
	if l.from != nil {
		from = *l.from
	}
	e := &int8Engine{level: C.int8_best(), model: C.int8_batch{
		hidden: C.int64_t(hidden), heads: C.int64_t(cfg.Heads), intermediate: C.int64_t(feed), layer_count: C.int64_t(cfg.Layers),
		function: function(cfg.HiddenAct), scale: C.float(scoreScale(cfg)[0]), epsilon: C.float(cfg.LayerNormEps),
	}}
	e.model.word = l.floats(from.word, cfg.Vocab*hidden)
	if cfg.HasPositions() {
		e.model.position = l.floats(from.position, cfg.MaxPositions*hidden)
	}
	if cfg.TypeVocab > 0 {
		e.model.token_type = l.floats(from.tokenType, cfg.TypeVocab*hidden)
	}
	e.model.embed_norm = l.norm(from.embedNorm)
	layers := make([]C.int8_layer, cfg.Layers)
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
	f := &fused{int8: e}
	f.pool = l.classifier(from.pool, hidden, hidden, (&network{cfg: cfg}).poolActivation())
	f.out = l.classifier(from.out, hidden, 2*l.aspects, "")
	if l.memory == nil {
		return nil
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&layers[0])), len(layers)*C.sizeof_int8_layer)
	kept := l.allocate(len(bytes))
	if l.err == nil {
		copy(kept, bytes)
		e.model.layers = (*C.int8_layer)(unsafe.Pointer(&kept[0]))
	}
	return f
}

// take returns the next part of the memory, or nil without memory or after an error.
func (l *int8Layout) take(bytes int) []byte {
	at := l.used
	l.used += (bytes + 63) / 64 * 64
	if l.memory == nil || l.err != nil {
		return nil
	}
	return l.memory[at : at+bytes]
}

// floats lays out n values of a tensor.
func (l *int8Layout) floats(from *ts.Tensor, n int) *C.float { return l.padded(from, n, n) }

// padded is floats followed by zeros, up to room values.
func (l *int8Layout) padded(from *ts.Tensor, n, room int) *C.float {
	to := l.take(4 * room)
	if to == nil {
		return nil
	}
	if l.from != nil {
		l.make(func(scope *tensorScope) []*ts.Tensor {
			whole := scope.do("contiguous", func() (*ts.Tensor, error) { return scope.cast(from, gotch.Float).Contiguous(false) })
			clear(to[copy(to, scope.bytes(whole, 4, []int64{int64(n)})):])
			return nil
		})
	}
	return (*C.float)(unsafe.Pointer(&to[0]))
}

// norm rounds the columns up to vectors of 16.
func (l *int8Layout) norm(from norm) C.int8_norm {
	n := l.cfg.HiddenSize
	wide := (n + 15) / 16 * 16
	return C.int8_norm{weight: l.padded(from.weight, n, wide), bias: l.padded(from.bias, n, wide)}
}

// linear quantizes rows [first, end) of a linear layer with the given number of inputs, off the libtorch thread.
func (l *int8Layout) linear(from dense, first, end, in int) C.int8_linear {
	out := end - first
	to := l.take(int(C.int8_bytes(C.int64_t(in), C.int64_t(out))))
	if to == nil {
		return C.int8_linear{}
	}
	memory := unsafe.Pointer(&to[0])
	if l.from == nil {
		return C.int8_at(memory, C.int64_t(in), C.int64_t(out))
	}
	var weight, bias []float32
	l.make(func(scope *tensorScope) []*ts.Tensor {
		weight = scope.values(scope.rows(from.weight, int64(first), int64(out)), out*in, gotch.CPU)
		bias = scope.values(scope.rows(from.bias, int64(first), int64(out)), out, gotch.CPU)
		return nil
	})
	if l.err != nil {
		return C.int8_linear{}
	}
	rounded, scales := quantize(weight, in)
	return C.int8_pack(memory, (*C.int8_t)(unsafe.Pointer(&rounded[0])), (*C.float)(unsafe.Pointer(&scales[0])), (*C.float)(unsafe.Pointer(&bias[0])), C.int64_t(in), C.int64_t(out))
}

// classifier lays out a layer of the classifier, whose tensors are copies.
func (l *int8Layout) classifier(from dense, in, out int, activation string) classifierLayer {
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
