package encoder

import (
	"fmt"
	"math/rand/v2"
	"unsafe"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"

	"github.com/assay-ai/assay/rewardmodel/checkpoint"
)

// param is a tensor of the network and the tensors of the checkpoint that it holds, one below the other.
type param struct {
	names  []string
	tensor *ts.Tensor
}

// loader fills a network from a checkpoint, tensor by tensor: each is read straight into libtorch's memory, then cast
// and moved, so at most one tensor exists twice.
type loader struct {
	g      *graph
	ckpt   *checkpoint.Checkpoint
	device gotch.Device
	kind   gotch.DType // of matrices and embeddings
	rng    *rand.Rand  // for the classifier of a base model
	params []param
}

// loadNetwork reads ckpt. The layers and embeddings become kind; the classifier and the first norm stay float32.
// A checkpoint without a classifier gets a fresh one drawn from seed. The tensors belong to the caller (see params).
func loadNetwork(g *graph, ckpt *checkpoint.Checkpoint, device gotch.Device, kind gotch.DType, seed uint64) (*network, []param, error) {
	cfg := ckpt.Config
	l := &loader{g: g, ckpt: ckpt, device: device, kind: kind, rng: rand.New(rand.NewPCG(seed, 0))}
	n := &network{cfg: cfg, device: device, kind: kind, layers: make([]layer, cfg.Layers), scale: scoreScale(cfg)}
	n.word = l.tensor(kind, "embeddings.word_embeddings.weight")
	if cfg.HasPositions() {
		n.position = l.tensor(kind, "embeddings.position_embeddings.weight")
	}
	if cfg.TypeVocab > 0 {
		n.tokenType = l.tensor(kind, "embeddings.token_type_embeddings.weight")
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
	var err error
	if n.pool, n.out, err = l.classifier(); err != nil {
		return nil, nil, err
	}
	return n, l.params, g.err
}

// under puts the path of a layer before each name.
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

// tensor reads the named tensors of the checkpoint, one below the other, into one of kind.
func (l *loader) tensor(kind gotch.DType, names ...string) *ts.Tensor {
	if l.g.err != nil {
		return nil
	}
	info, ok := l.ckpt.Info(names[0])
	if !ok {
		l.g.err = fmt.Errorf("encoder: %s has no tensor %s", l.ckpt.Dir, names[0])
		return nil
	}
	shape := make([]int64, len(info.Shape))
	for i, d := range info.Shape {
		shape[i] = int64(d)
	}
	shape[0] *= int64(len(names))
	stored, err := dtypeOf(info.DType)
	if err != nil {
		l.g.err = fmt.Errorf("encoder: %s: %w", names[0], err)
		return nil
	}
	var scratch graph
	defer scratch.drop()
	t, mem := scratch.empty(stored, shape...)
	part := len(mem) / len(names)
	for i, name := range names {
		if scratch.err != nil {
			break
		}
		if other, _ := l.ckpt.Info(name); other.DType != info.DType {
			scratch.err = fmt.Errorf("encoder: %s is %s but %s is %s; convert the checkpoint to one type", name, other.DType, names[0], info.DType)
			break
		}
		scratch.err = l.ckpt.ReadTensor(name, mem[i*part:(i+1)*part])
	}
	t = scratch.toDevice(scratch.cast(t, kind), l.device)
	if scratch.err != nil {
		l.g.err = scratch.err
		return nil
	}
	return l.keep(scratch.release(t), names...)
}

func (l *loader) keep(t *ts.Tensor, names ...string) *ts.Tensor {
	l.params = append(l.params, param{names, t})
	return t
}

// classifier loads the head in float32 with row 0 for the violation, or draws a fresh one for a base model. A single
// logit z of compliance becomes the rows -z/2 and z/2, whose difference is the same margin.
func (l *loader) classifier() (pool, out dense, err error) {
	poolName, outName := "pooler.dense", "classifier"
	if l.ckpt.Config.ModelType == checkpoint.Roberta {
		poolName, outName = "classifier.dense", "classifier.out_proj"
	}
	h := l.ckpt.Config.HiddenSize
	if _, ok := l.ckpt.Info(poolName + ".weight"); ok && l.g.err == nil {
		pool = l.dense(gotch.Float, poolName)
	} else {
		pool = dense{l.fresh(poolName+".weight", h, h), l.zeros(poolName+".bias", h)}
	}
	if !l.ckpt.HasClassifier() {
		return pool, dense{l.fresh(outName+".weight", 2, h), l.zeros(outName+".bias", 2)}, nil
	}
	violation, compliant, single, err := l.ckpt.Labels()
	if err != nil {
		return pool, out, err
	}
	weight, err := l.ckpt.Float32(outName + ".weight")
	if err != nil {
		return pool, out, err
	}
	bias, err := l.ckpt.Float32(outName + ".bias")
	if err != nil {
		return pool, out, err
	}
	w, b := make([]float32, 2*h), make([]float32, 2)
	if single {
		for i := range h {
			w[i], w[h+i] = -weight[i]/2, weight[i]/2
		}
		b[0], b[1] = -bias[0]/2, bias[0]/2
	} else {
		copy(w[:h], weight[violation*h:(violation+1)*h])
		copy(w[h:], weight[compliant*h:(compliant+1)*h])
		b[0], b[1] = bias[violation], bias[compliant]
	}
	return pool, dense{l.values(outName+".weight", w, 2, h), l.values(outName+".bias", b, 2)}, nil
}

// fresh draws a matrix from a normal distribution with deviation 0.02, as transformers initialises a new classifier.
func (l *loader) fresh(name string, out, in int) *ts.Tensor {
	v := make([]float32, out*in)
	for i := range v {
		v[i] = float32(0.02 * l.rng.NormFloat64())
	}
	return l.values(name, v, out, in)
}

func (l *loader) zeros(name string, n int) *ts.Tensor { return l.values(name, make([]float32, n), n) }

func (l *loader) values(name string, v []float32, shape ...int) *ts.Tensor {
	dims := make([]int64, len(shape))
	for i, d := range shape {
		dims[i] = int64(d)
	}
	t := l.g.float32s(v, l.device, dims...)
	if l.g.err != nil {
		return nil
	}
	return l.keep(l.g.release(t), name)
}

// dropParams frees the tensors of a network.
func dropParams(params []param) error {
	var g graph
	for _, p := range params {
		g.owned = append(g.owned, p.tensor)
	}
	g.drop()
	return g.err
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

// asBytes views floats as the little-endian bytes that a checkpoint stores.
func asBytes(v []float32) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), 4*len(v))
}
