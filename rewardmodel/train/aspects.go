package train

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"

	"assay/rewardmodel"
	"assay/rewardmodel/logistic"
)

// run is a training run of all aspects of a learner.
type run struct {
	Config
	ctx      context.Context
	learner  Learner
	aspects  []aspectRun // those with data
	kept     []int       // the others
	targets  keptMargins // of the kept ones
	schedule schedule
	progress Progress
}

// aspectRun trains one aspect.
type aspectRun struct {
	aspect int
	epoch  *Epoch
}

func newRun(ctx context.Context, learner Learner, cfg Config) *run {
	if cfg.Report == nil {
		cfg.Report = func(Progress) {}
	}
	return &run{Config: cfg, ctx: ctx, learner: learner, progress: Progress{Epochs: cfg.Epochs}}
}

// add adds an aspect that is trained on data.
func (r *run) add(aspect int, data *Data) {
	e := newEpoch(data, r.Batch)
	e.ctx, e.learner = r.ctx, aspectLearner{r.learner, aspect}
	r.aspects = append(r.aspects, aspectRun{aspect, e})
}

// epochs trains, resuming after the epochs of an earlier run, and returns the number of those.
func (r *run) epochs() (resumed int, err error) {
	if len(r.aspects) > 1 {
		unite(r.aspects, r.Batch)
	}
	perEpoch := r.Method.Steps(r.aspects[0].epoch)
	r.progress.Steps = r.Epochs * perEpoch
	warmup := int(r.Warmup * float64(r.progress.Steps))
	r.schedule = schedule{peak: r.Rate, floor: r.RateMin, warmup: warmup, total: r.progress.Steps}
	if len(r.kept) > 0 { // before the state of an earlier run is loaded
		if err := r.keep(); err != nil {
			return 0, err
		}
	}
	state, err := openState(r.Config)
	if err != nil {
		return 0, err
	}
	if err := state.load(r.learner, r.Method); err != nil {
		return 0, err
	}
	if s, ok := r.Method.(Stateful); ok && state.Epochs == 0 {
		if err := begin(s, r.aspects[0].epoch, r.Seed); err != nil {
			return 0, err
		}
	}
	for n := state.Epochs; n < r.Epochs; n++ {
		r.progress.Epoch, r.progress.Step = n+1, n*perEpoch
		for _, a := range r.aspects {
			a.epoch.Number = n
			a.epoch.RNG = rand.New(rand.NewPCG(r.Seed, uint64(n)))
			a.epoch.hide(r.HideContext, rand.New(rand.NewPCG(r.Seed, ^uint64(n))))
			a.epoch.comparing = a.epoch.Data.compareWith(r.LambdaComparison, perEpoch, rand.New(rand.NewPCG(r.Seed, 1<<63|uint64(n))))
		}
		if err := r.train(); err != nil {
			return 0, fmt.Errorf("train: epoch %d: %w", n+1, err)
		}
		if err := state.save(r.learner, r.Method, n+1); err != nil {
			return 0, err
		}
	}
	return state.resumed, nil
}

// begin lets a method initialize its own parameters, at random but reproducibly by seed.
func begin(m Stateful, e *Epoch, seed uint64) error {
	e.RNG = rand.New(rand.NewPCG(seed, 0xbe61))
	probe, err := e.learner.features([]rewardmodel.Sequence{e.Data.Bags[0].sequence(0)})
	if err != nil {
		return err
	}
	return m.Begin(e, len(probe[0]))
}

// train trains for one epoch. A single aspect takes its steps itself.
func (r *run) train() error {
	if len(r.aspects) == 1 && len(r.kept) == 0 {
		e := r.aspects[0].epoch
		e.schedule, e.progress, e.report = r.schedule, &r.progress, r.Report
		return r.Method.Epoch(e)
	}
	return r.interleave()
}

// interleave runs the epochs of all aspects side by side. Each is a coroutine that stops at its steps; the n-th steps of
// all, which are on the same mini-batch of the union, become one step of the optimizer.
func (r *run) interleave() error {
	epochs := make([]*pausedEpoch, len(r.aspects))
	for i, a := range r.aspects {
		epochs[i] = r.pause(a)
		defer epochs[i].stop()
	}
	sum, count := 0.0, 0
	for {
		var due []*pausedEpoch
		for _, e := range epochs {
			if e.err != nil {
				return e.err
			}
			if e.next != nil {
				due = append(due, e)
			}
		}
		if len(due) == 0 {
			return nil
		}
		if err := r.ctx.Err(); err != nil {
			return err
		}
		lr := r.schedule.rate(r.progress.Step)
		value, err := r.step(due, lr)
		if errors.Is(err, ErrNotFinite) || math.IsNaN(value) || math.IsInf(value, 0) {
			return &DivergedError{Step: r.progress.Step + 1, Stage: due[0].epoch.progress.Stage, Rate: lr}
		}
		if err != nil {
			return err
		}
		if r.progress.Stage != due[0].epoch.progress.Stage {
			r.progress.Stage, sum, count = due[0].epoch.progress.Stage, 0, 0
		}
		sum, count = sum+value, count+1
		r.progress.Step = min(r.progress.Step+1, r.progress.Steps)
		r.progress.LearningRate, r.progress.Loss = lr, sum/float64(count)
		r.Report(r.progress)
		for _, e := range due {
			e.resume()
		}
	}
}

// pausedEpoch is the epoch of an aspect that waits for its next step to be taken.
type pausedEpoch struct {
	aspectRun
	next *pendingStep // nil: the epoch has ended
	err  error        // with which it ended
	pull func() (*pendingStep, bool)
	stop func()
}

// pendingStep is a step of the optimizer for one aspect.
type pendingStep struct {
	batch []rewardmodel.Sequence
	loss  aspectLoss
	value float64 // of the loss, once the step is taken
}

// errStopped ends the epoch of an aspect when that of another has failed.
var errStopped = errors.New("train: stopped")

// pause starts the epoch of an aspect up to its first step.
func (r *run) pause(a aspectRun) *pausedEpoch {
	e := &pausedEpoch{aspectRun: a}
	a.epoch.progress, a.epoch.report = &Progress{}, func(Progress) {}
	e.pull, e.stop = iter.Pull(func(yield func(*pendingStep) bool) {
		a.epoch.learner = pausedLearner{aspectLearner{r.learner, a.aspect}, yield}
		e.err = r.Method.Epoch(a.epoch)
	})
	e.next, _ = e.pull()
	return e
}

// resume continues the epoch up to its next step.
func (e *pausedEpoch) resume() { e.next, _ = e.pull() }

// pausedLearner is an aspect whose steps are taken elsewhere.
type pausedLearner struct {
	aspectLearner
	yield func(*pendingStep) bool
}

func (l pausedLearner) step(batch []rewardmodel.Sequence, _ float64, loss aspectLoss) (float64, error) {
	s := &pendingStep{batch: batch, loss: loss}
	if !l.yield(s) {
		return 0, errStopped
	}
	return s.value, nil
}

// sameSequence identifies a sequence by its slices.
type sameSequence struct{ ids, context *int32 }

func identity(s rewardmodel.Sequence) sameSequence {
	same := sameSequence{ids: &s.IDs[0]}
	if len(s.Context) > 0 {
		same.context = &s.Context[0]
	}
	return same
}

// step takes the steps of several aspects as one. The loss is the sum of theirs, and of that of the kept aspects.
func (r *run) step(due []*pausedEpoch, lr float64) (float64, error) {
	var batch []rewardmodel.Sequence
	place := map[sameSequence]int{}
	rows := make([][]int, len(due)) // of each aspect's sequences in the batch
	for i, e := range due {
		for _, s := range e.next.batch {
			at, known := place[identity(s)]
			if !known {
				at = len(batch)
				place[identity(s)] = at
				batch = append(batch, s)
			}
			rows[i] = append(rows[i], at)
		}
	}
	return r.learner.Step(batch, lr, func(logits [][]float32) (float64, [][]float32) {
		grad := make([][]float32, len(logits))
		for i := range grad {
			grad[i] = make([]float32, len(logits[i]))
		}
		total := r.targets.loss(batch, logits, grad)
		for i, e := range due {
			own := make([][2]float32, len(rows[i]))
			for k, at := range rows[i] {
				own[k] = [2]float32(logits[at][2*e.aspect:])
			}
			value, g := e.next.loss(own)
			for k, at := range rows[i] {
				grad[at][2*e.aspect] += g[k][0]
				grad[at][2*e.aspect+1] += g[k][1]
			}
			e.next.value = value
			total += value
		}
		return total, grad
	})
}

// keptMargins are the margins that aspects without labels had at the start of a run, by sequence.
type keptMargins struct {
	aspects []int
	margins map[sameSequence][]float64 // one for each of the aspects
}

// keptWeight scales the loss of a kept aspect. The loss of BFGPU on a trained one sums two classes, each with the weight
// 1/pi_micro, which is between 1 and 2 for most data.
const keptWeight = 4

// loss is the mean cross-entropy of the kept aspects against their probabilities at the start, scaled by keptWeight. It adds
// the gradient.
func (k keptMargins) loss(batch []rewardmodel.Sequence, logits, grad [][]float32) (total float64) {
	if len(k.aspects) == 0 {
		return 0
	}
	weight := keptWeight / float64(len(batch))
	for i, s := range batch {
		for j, a := range k.aspects {
			target := logistic.Sigmoid(k.margins[identity(s)][j])
			m := margin([2]float32(logits[i][2*a:]))
			total += (logistic.Softplus(m) - target*m) * weight
			d := float32((logistic.Sigmoid(m) - target) * weight)
			grad[i][2*a] += d
			grad[i][2*a+1] -= d
		}
	}
	return total
}

// keep records the margins of the kept aspects on all that the run trains on.
func (r *run) keep() error {
	r.targets = keptMargins{r.kept, map[sameSequence][]float64{}}
	var all []rewardmodel.Sequence
	add := func(s rewardmodel.Sequence) {
		if _, known := r.targets.margins[identity(s)]; !known {
			r.targets.margins[identity(s)] = nil
			all = append(all, s)
		}
	}
	for _, a := range r.aspects {
		for _, bags := range append([]Comparison{a.epoch.Data.Bags}, a.epoch.Data.Comparisons...) {
			for _, b := range bags {
				for k := range b.Instances {
					add(b.sequence(k))
					if r.HideContext > 0 {
						add(rewardmodel.Sequence{IDs: b.Instances[k]})
					}
				}
			}
		}
	}
	return inBatches(r.ctx, all, func(s rewardmodel.Sequence) rewardmodel.Sequence { return s },
		func(seqs []rewardmodel.Sequence, _ []rewardmodel.Sequence) error {
			logits, err := r.learner.Logits(seqs)
			if err != nil {
				return err
			}
			for i, s := range seqs {
				margins := make([]float64, len(r.kept))
				for j, a := range r.kept {
					margins[j] = margin([2]float32(logits[i][2*a:]))
				}
				r.targets.margins[identity(s)] = margins
			}
			return nil
		})
}

// scoredOnce is a learner that keeps the logits of each sequence, which are those of all aspects. Its weights must not
// change.
type scoredOnce struct {
	Learner
	known map[sameSequence][]float32
}

func (l scoredOnce) Logits(batch []rewardmodel.Sequence) ([][]float32, error) {
	var missing []rewardmodel.Sequence
	for _, s := range batch {
		if _, ok := l.known[identity(s)]; !ok {
			missing = append(missing, s)
		}
	}
	if len(missing) > 0 {
		rows, err := l.Learner.Logits(missing)
		if err != nil {
			return nil, err
		}
		for i, s := range missing {
			l.known[identity(s)] = rows[i]
		}
	}
	out := make([][]float32, len(batch))
	for i, s := range batch {
		out[i] = l.known[identity(s)]
	}
	return out, nil
}
