package encoder

import (
	"fmt"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"

	"github.com/assay-ai/assay/rewardmodel/checkpoint"
	"github.com/assay-ai/assay/rewardmodel/train"
)

// LearnerOptions are the settings of a training run that the encoder itself needs.
type LearnerOptions struct {
	// Precision of the layers' products in the forward and backward pass. The weights themselves, their gradients and
	// the optimizer's moments stay float32.
	Precision Precision
	// Seed of the dropout masks and of a fresh classifier.
	Seed uint64
	// WeightDecay is decoupled (AdamW); 0 is plain Adam.
	WeightDecay float64
	// MaxTokens bounds the tokens whose activations are held at once; 0 means 8192. A larger mini-batch takes two
	// forward passes: the gradient is the same, the memory stays.
	MaxTokens int
	// Dropout multiplies the probabilities of config.json; nil leaves them.
	Dropout *float64
}

// Learner trains a checkpoint on the libtorch thread. Its methods may be called from any goroutine, one at a time.
type Learner struct {
	runtime   *Runtime
	kind      gotch.DType
	maxTokens int
	seed      uint64
	drop      dropouts
	net       *network
	params    []param
	adam      adam
}

var _ train.Learner = (*Learner)(nil)

// NewLearner reads a checkpoint for training. A base model gets a fresh classifier drawn from the seed.
func (r *Runtime) NewLearner(ckpt *checkpoint.Checkpoint, opts LearnerOptions) (*Learner, error) {
	kind, _, err := r.resolve(opts.Precision)
	if err != nil {
		return nil, err
	}
	cfg := ckpt.Config
	l := &Learner{
		runtime: r, kind: kind, maxTokens: opts.MaxTokens, seed: opts.Seed,
		drop: dropouts{cfg.HiddenDropout, cfg.AttentionDropout, cfg.ClassifierDropout},
		adam: adam{decay: opts.WeightDecay},
	}
	if opts.Dropout != nil {
		l.drop = dropouts{*opts.Dropout, *opts.Dropout, *opts.Dropout}
	}
	if l.maxTokens == 0 {
		l.maxTokens = 8192
	}
	err = r.do(func() error {
		var g graph
		defer g.drop()
		l.net, l.params, err = loadNetwork(&g, ckpt, r.device, gotch.Float, opts.Seed)
		if err != nil {
			return err
		}
		for _, p := range l.params {
			g.do("requires_grad", func() (*ts.Tensor, error) { return p.tensor.SetRequiresGrad(true, false) })
		}
		return l.resetMoments(&g)
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (l *Learner) resetMoments(g *graph) error {
	l.adam.moments = make([]moment, len(l.params))
	for i, p := range l.params {
		zeros := func() *ts.Tensor {
			return g.release(g.do("zeros", func() (*ts.Tensor, error) { return p.tensor.ZerosLike(false) }))
		}
		l.adam.moments[i] = moment{zeros(), zeros()}
	}
	return g.err
}

// Step takes one optimizer step on a mini-batch: loss sees the logits of all sequences and returns the gradient with
// respect to them, which is then propagated through the network. The gradient of a mini-batch larger than MaxTokens
// is accumulated over chunks, each run twice with the same dropout masks.
func (l *Learner) Step(batch [][]int32, lr float64, loss train.Loss) (value float64, err error) {
	chunks, err := l.chunks(batch)
	if err != nil || len(batch) == 0 {
		return 0, err
	}
	err = l.runtime.do(func() error {
		value, err = l.step(chunks, len(batch), lr, loss)
		return err
	})
	return value, err
}

// chunk is a part of a mini-batch that fits in memory: members are indices into the mini-batch.
type chunk struct {
	members []int
	packed  *packed
}

func (l *Learner) chunks(batch [][]int32) ([]chunk, error) {
	var chunks []chunk
	for start := 0; start < len(batch); {
		end, tokens := start, 0
		for end < len(batch) && (end == start || tokens+len(batch[end]) <= l.maxTokens) {
			tokens += len(batch[end])
			end++
		}
		p, err := l.net.pack(batch[start:end])
		if err != nil {
			return nil, err
		}
		members := make([]int, 0, end-start)
		for i := start; i < end; i++ {
			members = append(members, i)
		}
		chunks = append(chunks, chunk{members, p})
		start = end
	}
	return chunks, nil
}

func (l *Learner) step(chunks []chunk, n int, lr float64, loss train.Loss) (float64, error) {
	logits := make([][2]float32, n)
	if len(chunks) > 1 {
		for i, c := range chunks {
			if err := l.preview(c, i, logits); err != nil {
				return 0, err
			}
		}
	}
	var value float64
	var grads [][2]float32
	for i, c := range chunks {
		var g graph
		z := l.run(&g, c, i, logits)
		if g.err == nil && grads == nil {
			value, grads = loss(logits)
		}
		l.backward(&g, c, z, grads)
		g.drop()
		if g.err != nil {
			return 0, g.err
		}
	}
	defer withoutGradients()()
	var g graph
	l.adam.update(&g, l.params, lr)
	return value, g.err
}

// preview computes a chunk's logits without keeping its activations.
func (l *Learner) preview(c chunk, index int, logits [][2]float32) error {
	defer withoutGradients()()
	var g graph
	defer g.drop()
	l.run(&g, c, index, logits)
	return g.err
}

// run is a forward pass in training mode: it fills the chunk's logits and returns them as a tensor in packed order.
// The dropout masks depend on the seed, the step and the chunk alone.
func (l *Learner) run(g *graph, c chunk, index int, logits [][2]float32) *ts.Tensor {
	seed(l.seed<<32 + uint64(l.adam.step)<<8 + uint64(index))
	z := l.net.cast(g, l.kind).forward(g, c.packed, l.drop)
	detached := g.do("detach", func() (*ts.Tensor, error) { return z.Detach(false) })
	values := g.values(detached, 2*len(c.members), l.net.device)
	if g.err != nil {
		return nil
	}
	unpacked, err := c.packed.unpack(values)
	if err != nil {
		g.err = err
		return nil
	}
	for i, member := range c.members {
		logits[member] = unpacked[i]
	}
	return z
}

// backward propagates the gradient of the loss from the logits: the derivative of sum(z * grad) with respect to z is
// grad.
func (l *Learner) backward(g *graph, c chunk, z *ts.Tensor, grads [][2]float32) {
	if g.err != nil {
		return
	}
	flat := make([]float32, 0, 2*len(c.members))
	for _, i := range c.packed.order {
		flat = append(flat, grads[c.members[i]][0], grads[c.members[i]][1])
	}
	weights := g.float32s(flat, l.net.device, int64(len(c.members)), 2)
	product := g.mul(z, weights)
	total := g.do("sum", func() (*ts.Tensor, error) { return product.Sum(gotch.Float, false) })
	g.run("backward", func() error { return total.Backward() })
}

// Logits scores sequences with the weights as they are, without dropout, in batches of at most MaxTokens.
func (l *Learner) Logits(batch [][]int32) ([][2]float32, error) {
	chunks, err := l.chunks(batch)
	if err != nil {
		return nil, err
	}
	logits := make([][2]float32, len(batch))
	err = l.runtime.do(func() error {
		defer withoutGradients()()
		var casts graph
		defer casts.drop()
		net := l.net.cast(&casts, l.kind)
		if casts.err != nil {
			return casts.err
		}
		for _, c := range chunks {
			z, err := net.infer(c.packed)
			if err != nil {
				return err
			}
			for i, member := range c.members {
				logits[member] = z[i]
			}
		}
		return nil
	})
	return logits, err
}

// Rescale makes every margin m scale*m + shift, by changing the classifier's last layer.
func (l *Learner) Rescale(scale, shift float64) error {
	return l.runtime.do(func() error {
		defer withoutGradients()()
		var g graph
		defer g.drop()
		g.scale(l.net.out.weight, scale)
		g.scale(l.net.out.bias, scale)
		half := g.float32s([]float32{float32(shift / 2), float32(-shift / 2)}, l.net.device, 2)
		g.run("shift", func() error { return l.net.out.bias.Add_(half) })
		return g.err
	})
}

// Close frees the weights and the optimizer's moments.
func (l *Learner) Close() error {
	return l.runtime.do(func() error {
		var g graph
		for _, m := range l.adam.moments {
			g.owned = append(g.owned, m.first, m.second)
		}
		g.drop()
		if err := dropParams(l.params); err != nil {
			return err
		}
		if g.err != nil {
			return fmt.Errorf("encoder: free the optimizer: %w", g.err)
		}
		return nil
	})
}
