package encoder

import (
	"fmt"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/train"
)

// LearnerOptions are the settings of a training run that the encoder itself needs.
type LearnerOptions struct {
	// Precision of the layers' matrix multiplications in the forward and backward pass. The weights, their gradients and
	// the optimizer's moments stay float32.
	Precision Precision
	// Seed of the dropout masks and of a randomly initialized classification head.
	Seed uint64
	// WeightDecay is decoupled (AdamW); 0 is plain Adam.
	WeightDecay float64
	// MaxTokens bounds the tokens whose activations are in memory at the same time; 0 means 8192. A larger mini-batch
	// takes two forward passes: the gradient is the same and the memory stays bounded.
	MaxTokens int
	// Dropout overrides the probabilities of config.json; nil keeps them.
	Dropout *float64
	// Embeddings specifies which rows of the word embeddings a step updates; empty means DenseRows.
	Embeddings EmbeddingRows
	// Aspects are the aspects of the trained model, in the order of its logits; nil means those of the checkpoint.
	Aspects []AspectInit
	// Context lets sequences have a context. A checkpoint with one token type gets a second one for it, which starts as a
	// copy.
	Context bool
}

// AspectInit says how an aspect starts.
type AspectInit struct {
	// Name is the name in the trained model; see rewardmodel.CheckAspect.
	Name string
	// From is the aspect of the checkpoint whose classifier the aspect starts from; empty means that of the same name. If
	// there is none, the aspect's rows are randomly initialized from the seed.
	From string
}

// Learner trains a checkpoint on the libtorch thread. Its methods may be called from any goroutine, one at a time.
type Learner struct {
	runtime   *Runtime
	kind      gotch.DType
	precision Precision
	maxTokens int
	seed      uint64
	drop      dropouts
	net       *network
	params    []param
	wordRows  *trainedRows // rows of the word embeddings that a step trains
	adam      adam
}

var _ train.Learner = (*Learner)(nil)

// NewLearner reads a checkpoint for training. A base model gets a classification head that is randomly initialized from
// the seed.
func (r *Runtime) NewLearner(ckpt *checkpoint.Checkpoint, opts LearnerOptions) (*Learner, error) {
	kind, precision, err := r.resolve(opts.Precision)
	if err != nil {
		return nil, err
	}
	cfg := ckpt.Config
	l := &Learner{
		runtime: r, kind: kind, precision: precision, maxTokens: opts.MaxTokens, seed: opts.Seed,
		drop: dropouts{cfg.HiddenDropout, cfg.AttentionDropout, cfg.ClassifierDropout, cfg.Modern.EmbeddingDropout},
		adam: adam{decay: opts.WeightDecay}, wordRows: newTrainedRows(opts.Embeddings),
	}
	if opts.Embeddings != "" && opts.Embeddings != DenseRows && opts.Embeddings != TouchedRows {
		return nil, fmt.Errorf("encoder: unknown embedding rows %q; use %s or %s", opts.Embeddings, DenseRows, TouchedRows)
	}
	if opts.Dropout != nil {
		l.drop = dropouts{*opts.Dropout, *opts.Dropout, *opts.Dropout, *opts.Dropout}
	}
	if l.maxTokens == 0 {
		l.maxTokens = 8192
	}
	change := changes{seed: opts.Seed, aspects: opts.Aspects, context: opts.Context, addType: opts.Context}
	if l.net, l.params, err = loadNetwork(r, ckpt, gotch.Float, change); err != nil {
		return nil, err
	}
	err = r.do(func() error {
		var scope tensorScope
		defer scope.drop()
		for _, p := range l.params {
			if p.tensor == l.net.word {
				continue // a step trains a copy of its rows
			}
			scope.do("requires_grad", func() (*ts.Tensor, error) { return p.tensor.SetRequiresGrad(true, false) })
		}
		return l.resetMoments(&scope)
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Precision returns the precision in use: FP32 or BF16.
func (l *Learner) Precision() Precision { return l.precision }

func (l *Learner) resetMoments(scope *tensorScope) error {
	l.adam.moments = make([]moment, len(l.params))
	for i, p := range l.params {
		zeros := func() *ts.Tensor {
			return scope.release(scope.do("zeros", func() (*ts.Tensor, error) { return p.tensor.ZerosLike(false) }))
		}
		l.adam.moments[i] = moment{zeros(), zeros()}
	}
	return scope.err
}

// output selects the output of the network that a loss reads.
type output int

const (
	outputLogits   output = iota // of the classifier, [sequences, 2*aspects]
	outputFeatures               // last hidden state of the first token, [sequences, hidden]
)

func (n *network) output(scope *tensorScope, p *packed, drop dropouts, of output) *ts.Tensor {
	if of == outputFeatures {
		return n.encode(scope, p, drop)
	}
	return n.forward(scope, p, drop)
}

func (n *network) width(of output) int {
	if of == outputFeatures {
		return n.cfg.HiddenSize
	}
	return 2 * len(n.aspects)
}

// Step takes one optimizer step on a mini-batch: loss sees the logits of all sequences and returns the gradient with
// respect to them, which is then propagated through the network. The gradient of a mini-batch larger than MaxTokens
// is accumulated over chunks, each run twice with the same dropout masks.
func (l *Learner) Step(batch []rewardmodel.Sequence, lr float64, loss train.Loss) (float64, error) {
	return l.optimize(batch, lr, outputLogits, train.FeatureLoss(loss))
}

// StepFeatures is Step with a loss on features, the last hidden state of each sequence's first token.
func (l *Learner) StepFeatures(batch []rewardmodel.Sequence, lr float64, loss train.FeatureLoss) (float64, error) {
	return l.optimize(batch, lr, outputFeatures, loss)
}

func (l *Learner) optimize(batch []rewardmodel.Sequence, lr float64, of output, loss train.FeatureLoss) (value float64, err error) {
	chunks, err := l.chunks(batch)
	if err != nil || len(batch) == 0 {
		return 0, err
	}
	err = l.runtime.do(func() error {
		s := step{Learner: l, of: of, rows: make([][]float32, len(batch))}
		value, err = s.take(chunks, lr, loss)
		return err
	})
	return value, err
}

// chunk is a part of a mini-batch that fits in memory; start is the index of its first sequence.
type chunk struct {
	start  int
	packed *packed
}

func (l *Learner) chunks(batch []rewardmodel.Sequence) ([]chunk, error) {
	var chunks []chunk
	for start := 0; start < len(batch); {
		end, tokens := start, 0
		contexts := map[contextID]bool{}
		for end < len(batch) {
			added := len(batch[end].IDs)
			id, ok := contextOf(batch[end])
			if ok && !contexts[id] {
				added += len(batch[end].Context)
			}
			if end > start && tokens+added > l.maxTokens {
				break
			}
			contexts[id] = true
			tokens += added
			end++
		}
		p, err := l.net.pack(batch[start:end])
		if err != nil {
			return nil, err
		}
		chunks = append(chunks, chunk{start, p})
		start = end
	}
	return chunks, nil
}

// step is one optimizer step in progress.
type step struct {
	*Learner
	of   output
	rows [][]float32 // the output of each sequence of the mini-batch
	word *ts.Tensor  // the trained rows of the word embeddings, [rows, hidden]
}

func (s *step) take(chunks []chunk, lr float64, loss train.FeatureLoss) (float64, error) {
	var scope tensorScope
	defer scope.drop()
	s.word = s.wordRows.take(&scope, chunks, s.net)
	if len(chunks) > 1 {
		for i, c := range chunks {
			if err := s.noGradPass(c, i); err != nil {
				return 0, err
			}
		}
	}
	var value float64
	var grads [][]float32
	for i, c := range chunks {
		pass := tensorScope{err: scope.err}
		out := s.run(&pass, c, i)
		if pass.err == nil && grads == nil {
			value, grads = loss(s.rows)
		}
		s.backward(&pass, c, out, grads)
		pass.drop()
		if pass.err != nil {
			return 0, pass.err
		}
	}
	defer withoutGradients()()
	s.update(&scope, lr)
	return value, scope.err
}

// noGradPass computes a chunk's output without keeping its activations.
func (s *step) noGradPass(c chunk, index int) error {
	defer withoutGradients()()
	var scope tensorScope
	defer scope.drop()
	s.run(&scope, c, index)
	return scope.err
}

// run is a forward pass in training mode: it fills the chunk's part of s.rows and returns it as a tensor in packed
// order. The dropout masks depend only on the seed, the step and the chunk.
func (s *step) run(scope *tensorScope, c chunk, index int) *ts.Tensor {
	seed(s.seed<<32 + uint64(s.adam.step)<<8 + uint64(index))
	net := *s.net.cast(scope, s.kind)
	net.word, net.training = s.word, true
	out := net.output(scope, c.packed, s.drop, s.of)
	detached := scope.do("detach", func() (*ts.Tensor, error) { return out.Detach(false) })
	values := scope.values(detached, s.net.width(s.of)*len(c.packed.order), s.net.device)
	if scope.err == nil {
		scope.err = c.packed.unpack(values, s.rows[c.start:])
	}
	return out
}

// backward propagates the gradient of the loss from the output: the derivative of sum(out * grad) with respect to out
// is grad.
func (s *step) backward(scope *tensorScope, c chunk, out *ts.Tensor, grads [][]float32) {
	if scope.err != nil {
		return
	}
	width := s.net.width(s.of)
	flat := make([]float32, 0, width*len(c.packed.order))
	for _, i := range c.packed.order {
		flat = append(flat, grads[c.start+i]...)
	}
	weights := scope.float32s(flat, s.net.device, int64(len(c.packed.order)), int64(width))
	weighted := scope.mul(out, weights)
	total := scope.do("sum", func() (*ts.Tensor, error) { return weighted.Sum(gotch.Float, false) })
	scope.run("backward", func() error { return total.Backward() })
}

// Logits scores sequences with the current weights, without dropout, in batches of at most MaxTokens: two logits per
// aspect, violation first.
func (l *Learner) Logits(batch []rewardmodel.Sequence) ([][]float32, error) {
	return l.infer(batch, outputLogits)
}

// Features returns the last hidden state of each sequence's first token, without dropout.
func (l *Learner) Features(batch []rewardmodel.Sequence) ([][]float32, error) {
	return l.infer(batch, outputFeatures)
}

func (l *Learner) infer(batch []rewardmodel.Sequence, of output) ([][]float32, error) {
	chunks, err := l.chunks(batch)
	if err != nil {
		return nil, err
	}
	rows := make([][]float32, len(batch))
	err = l.runtime.do(func() error {
		defer withoutGradients()()
		var casts tensorScope
		defer casts.drop()
		net := l.net.cast(&casts, l.kind)
		for _, c := range chunks {
			if casts.err != nil {
				return casts.err
			}
			if err := net.infer(c.packed, of, rows[c.start:]); err != nil {
				return err
			}
		}
		return nil
	})
	return rows, err
}

// Rescale maps every margin m of an aspect to scale*m + shift by changing the classifier's last layer.
func (l *Learner) Rescale(aspect int, scale, shift float64) error {
	if aspect < 0 || aspect >= len(l.net.aspects) {
		return fmt.Errorf("encoder: aspect %d; the model has %d", aspect, len(l.net.aspects))
	}
	return l.runtime.do(func() error {
		defer withoutGradients()()
		var scope tensorScope
		defer scope.drop()
		weight, bias := scope.rows(l.net.out.weight, int64(2*aspect), 2), scope.rows(l.net.out.bias, int64(2*aspect), 2)
		scope.scale(weight, scale)
		scope.scale(bias, scale)
		half := scope.float32s([]float32{float32(shift / 2), float32(-shift / 2)}, l.net.device, 2)
		scope.run("shift", func() error { return bias.Add_(half) })
		return scope.err
	})
}

// Close frees the weights and the optimizer's moments.
func (l *Learner) Close() error {
	return l.runtime.do(func() error {
		var scope tensorScope
		for _, m := range l.adam.moments {
			scope.owned = append(scope.owned, m.first, m.second)
		}
		scope.drop()
		if err := dropParams(l.params); err != nil {
			return err
		}
		if scope.err != nil {
			return fmt.Errorf("encoder: free the optimizer: %w", scope.err)
		}
		return nil
	})
}
