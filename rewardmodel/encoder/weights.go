package encoder

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"

	"assay/rewardmodel/checkpoint"
)

// param is a tensor of the network and the names of the checkpoint tensors that are stacked in it.
type param struct {
	names  []string
	tensor *ts.Tensor
}

// loader fills a network from a checkpoint, tensor by tensor. It reads and converts the weights on its own goroutine,
// directly into the memory of their tensors. It uses the libtorch thread only to allocate the tensors, all in one call,
// and to move parts of them to a GPU. A model that is scoring at the same time waits only briefly, and the loader rarely
// waits for the model.
type loader struct {
	runtime *Runtime
	ckpt    *checkpoint.Checkpoint
	kind    gotch.DType // of matrices and embeddings
	change  changes
	rng     *rand.Rand

	viaCPU     bool           // written on the CPU and then moved, as for a GPU
	chunkBytes int            // bytes that are moved in one call on the libtorch thread
	planning   bool           // only note which tensors the network has
	staged     []stagedTensor // on the CPU: those not filled yet
	params     []param
	err        error // the first
}

// changes are the differences between a checkpoint and the network that is loaded from it.
type changes struct {
	seed    uint64       // of randomly initialized weights
	aspects []AspectInit // nil: those of the checkpoint
	context bool         // sequences may have a context
	addType bool         // add a token type for the context to a model with only one
}

// stagedTensor is an uninitialized CPU tensor and its memory; without them it is only planned.
type stagedTensor struct {
	kind   gotch.DType
	shape  []int64
	tensor *ts.Tensor
	mem    []byte
}

// loadNetwork reads ckpt. The layers and embeddings become kind; the classifier and the first norm stay float32.
// A checkpoint without a classifier gets a classification head that is randomly initialized. The caller owns the returned
// tensors and must not be on the libtorch thread.
func loadNetwork(r *Runtime, ckpt *checkpoint.Checkpoint, kind gotch.DType, change changes) (*network, []param, error) {
	l := &loader{runtime: r, ckpt: ckpt, kind: kind, change: change, viaCPU: r.device.IsCuda(), chunkBytes: 8 << 20}
	return l.load()
}

func (l *loader) load() (*network, []param, error) {
	if !l.viaCPU {
		l.planning = true
		l.network()
		l.planning = false
		l.make(l.staged)
	}
	n := l.network()
	if l.err != nil {
		return nil, nil, errors.Join(l.err, l.drop())
	}
	return n, l.params, nil
}

func (l *loader) network() *network {
	kind, cfg := l.kind, l.ckpt.Config
	l.rng = rand.New(rand.NewPCG(l.change.seed, 0))
	n := &network{cfg: cfg, device: l.runtime.device, kind: kind, stream: kind, layers: make([]layer, cfg.Layers), scale: scoreScale(cfg)}
	n.word = l.tensor(kind, cfg.WordEmbeddings())
	if n.isModern() {
		l.modern(n)
	} else {
		l.postNorm(n)
	}
	n.contexts = l.change.context
	if n.contexts && l.err == nil {
		l.err = checkContext(n.cfg)
	}
	n.out, n.aspects = l.classifier(n)
	return n
}

// postNorm loads the embeddings and layers of a model with post-normalization.
func (l *loader) postNorm(n *network) {
	kind, cfg := l.kind, n.cfg
	if cfg.HasPositions() {
		n.position = l.tensor(kind, "embeddings.position_embeddings.weight")
	}
	if cfg.TypeVocab > 0 {
		n.tokenType = l.tokenTypes(&n.cfg)
	}
	n.embedNorm = l.norm(gotch.Float, "embeddings.LayerNorm")
	if cfg.Disentangled.Relative {
		n.relative.embedding = l.tensor(kind, "encoder.rel_embeddings.weight")
	}
	if cfg.Disentangled.Norm {
		n.relative.norm = l.norm(gotch.Float, "encoder.LayerNorm")
	}
	for i := range n.layers {
		at := fmt.Sprintf("encoder.layer.%d.", i)
		n.layers[i] = layer{
			qkv:           l.dense(kind, under(at, cfg.Projections())...),
			attended:      l.dense(kind, at+"attention.output.dense"),
			attentionNorm: l.norm(kind, at+"attention.output.LayerNorm"),
			intermediate:  l.dense(kind, at+"intermediate.dense"),
			output:        l.dense(kind, at+"output.dense"),
			outputNorm:    l.norm(kind, at+"output.LayerNorm"),
		}
		if names := cfg.PositionProjections(); len(names) > 0 {
			n.layers[i].positions = l.dense(kind, under(at, names)...)
		}
	}
}

// checkContext reports why a model cannot read a context.
func checkContext(cfg checkpoint.Config) error {
	switch {
	case cfg.ModelType == checkpoint.DebertaV2 || cfg.ModelType == checkpoint.ModernBert:
		return fmt.Errorf("encoder: %s does not support context; use a RoBERTa or BERT model, or leave context off", cfg.ModelType)
	case cfg.TypeVocab <= contextType:
		return fmt.Errorf("encoder: context is true in assay.json, but type_vocab_size is %d in config.json; context needs %d token types", cfg.TypeVocab, contextType+1)
	}
	return nil
}

const tokenTypeEmbeddings = "embeddings.token_type_embeddings.weight"

// tokenTypes reads the embeddings of token types. Training with context adds that of the context to a single one, as a
// copy.
func (l *loader) tokenTypes(cfg *checkpoint.Config) *ts.Tensor {
	const name = tokenTypeEmbeddings
	if !l.change.addType || cfg.TypeVocab > contextType {
		return l.tensor(l.kind, name)
	}
	cfg.TypeVocab = contextType + 1
	return l.fill(l.kind, []int{cfg.TypeVocab, cfg.HiddenSize}, []string{name}, func(mem []byte) error {
		half := len(mem) / 2
		err := l.ckpt.ReadAs(name, storedAs(l.kind), mem[:half])
		copy(mem[half:], mem[:half])
		return err
	})
}

// under prefixes each name with the path of a layer.
func under(layer string, names []string) []string {
	full := make([]string, len(names))
	for i, name := range names {
		full[i] = layer + name
	}
	return full
}

func (l *loader) dense(kind gotch.DType, names ...string) dense {
	weights, biases := make([]string, len(names)), make([]string, len(names))
	for i, name := range names {
		weights[i], biases[i] = name+".weight", name+".bias"
	}
	return dense{l.tensor(kind, weights...), l.tensor(kind, biases...)}
}

func (l *loader) norm(kind gotch.DType, name string) norm {
	return norm{l.tensor(kind, name+".weight"), l.tensor(kind, name+".bias")}
}

// tensor reads the named tensors of the checkpoint and stacks them in one tensor of kind.
func (l *loader) tensor(kind gotch.DType, names ...string) *ts.Tensor {
	if l.err != nil {
		return nil
	}
	info, ok := l.ckpt.Info(names[0])
	if !ok {
		l.err = fmt.Errorf("encoder: %s has no tensor %s", l.ckpt.Dir, names[0])
		return nil
	}
	shape := slices.Clone(info.Shape)
	shape[0] *= len(names)
	return l.fill(kind, shape, names, func(mem []byte) error {
		part := len(mem) / len(names)
		for i, name := range names {
			if err := l.ckpt.ReadAs(name, storedAs(kind), mem[i*part:(i+1)*part]); err != nil {
				return err
			}
		}
		return nil
	})
}

// fill writes the memory of a tensor off the libtorch thread and adds the tensor to the parameters.
func (l *loader) fill(kind gotch.DType, shape []int, names []string, write func(mem []byte) error) *ts.Tensor {
	if l.err != nil {
		return nil
	}
	if l.planning || l.viaCPU {
		m := stagedTensor{kind: kind, shape: make([]int64, len(shape))}
		for i, d := range shape {
			m.shape[i] = int64(d)
		}
		l.staged = append(l.staged, m)
	}
	if l.planning {
		return nil
	}
	if l.viaCPU {
		l.make(l.staged)
	}
	if l.err == nil {
		l.err = write(l.staged[0].mem)
	}
	if l.err == nil && l.viaCPU {
		l.move()
	}
	if l.err != nil {
		return nil
	}
	t := l.staged[0].tensor
	l.staged = l.staged[1:]
	l.params = append(l.params, param{names, t})
	return t
}

// make allocates the planned tensors.
func (l *loader) make(planned []stagedTensor) {
	if l.err != nil {
		return
	}
	l.err = l.runtime.do(func() error {
		var scope tensorScope
		defer scope.drop()
		for i := range planned {
			m := &planned[i]
			t, mem := scope.empty(m.kind, m.shape...)
			if scope.err != nil {
				return scope.err
			}
			m.tensor, m.mem = scope.release(t), mem
		}
		return nil
	})
}

// drop frees all tensors that were allocated.
func (l *loader) drop() error {
	return l.runtime.do(func() error {
		all := l.params
		for _, m := range l.staged {
			if m.tensor != nil {
				all = append(all, param{tensor: m.tensor})
			}
		}
		return dropParams(all)
	})
}

// move replaces the tensor that was filled with a copy on the GPU, some rows at a time.
func (l *loader) move() {
	from := l.staged[0]
	l.staged[0].mem = nil
	var to *ts.Tensor
	row := int64(from.kind.Size()) // bytes
	for _, d := range from.shape[1:] {
		row *= d
	}
	step := max(int64(l.chunkBytes)/max(row, 1), 1)
	for at := int64(0); at < from.shape[0] && l.err == nil; at += step {
		l.err = l.runtime.do(func() error {
			var scope tensorScope
			defer scope.drop()
			if to == nil {
				t := scope.do("empty", func() (*ts.Tensor, error) { return ts.Empty(from.shape, from.kind, l.runtime.device) })
				if scope.err != nil {
					return scope.err
				}
				to = scope.release(t)
				l.staged = append(l.staged, stagedTensor{tensor: to}) // to be freed, should this fail
			}
			n := min(step, from.shape[0]-at)
			source, target := scope.rows(from.tensor, at, n), scope.rows(to, at, n)
			scope.copy(target, source)
			if at+n == from.shape[0] && scope.err == nil {
				l.staged = l.staged[1:]
				scope.owned = append(scope.owned, from.tensor)
			}
			return scope.err
		})
	}
}

// classifier loads the head in float32: n.pool, and the last layer with two rows per aspect, violation first.
func (l *loader) classifier(n *network) (out dense, aspects []string) {
	from := classifierReader{ckpt: l.ckpt, change: l.change, rng: l.rng}
	if n.isModern() {
		n.pool = l.modernHead(n)
	} else {
		n.pool = l.classifierLayer(from.pool)
	}
	return l.classifierLayer(func() (w classifierWeights, err error) {
		w, aspects, err = from.out()
		return w, err
	}), aspects
}

func (l *loader) classifierLayer(read func() (classifierWeights, error)) dense {
	if l.err != nil {
		return dense{}
	}
	w, err := read()
	if err != nil {
		l.err = err
		return dense{}
	}
	rows := len(w.bias)
	return dense{l.values(w.name+".weight", w.weight, rows, len(w.weight)/rows), l.values(w.name+".bias", w.bias, rows)}
}

func (l *loader) randomMatrix(name string, out, in int) *ts.Tensor {
	return l.values(name, normal(l.rng, out*in), out, in)
}

func (l *loader) zeros(name string, n int) *ts.Tensor { return l.values(name, make([]float32, n), n) }

func (l *loader) values(name string, v []float32, shape ...int) *ts.Tensor {
	return l.fill(gotch.Float, shape, []string{name}, func(mem []byte) error {
		copy(mem, asBytes(v))
		return nil
	})
}

// dropParams frees the tensors of a network.
func dropParams(params []param) error {
	var scope tensorScope
	for _, p := range params {
		scope.owned = append(scope.owned, p.tensor)
	}
	scope.drop()
	return scope.err
}

func dtypeOf(d checkpoint.DType) (gotch.DType, error) {
	switch d {
	case checkpoint.F32:
		return gotch.Float, nil
	case checkpoint.F16:
		return gotch.Half, nil
	case checkpoint.BF16:
		return gotch.BFloat16, nil
	}
	return gotch.Float, fmt.Errorf("element type %s is not a float type", d)
}

// storedAs is the element type of a checkpoint for one of libtorch's.
func storedAs(kind gotch.DType) checkpoint.DType {
	if kind == gotch.BFloat16 {
		return checkpoint.BF16
	}
	return checkpoint.F32
}

// asBytes returns a view of floats as the little-endian bytes that a checkpoint stores.
func asBytes(v []float32) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), 4*len(v))
}
