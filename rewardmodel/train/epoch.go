package train

import (
	"errors"
	"math"
	"math/rand/v2"

	"assay/rewardmodel"
)

// Epoch is one training epoch: a Method plans its mini-batches and takes a step of the optimizer on each.
type Epoch struct {
	Network
	Number int        // from 0
	Batch  int        // instances in a mini-batch
	RNG    *rand.Rand // seeded by the run's seed and the epoch

	violating, compliant []int  // indices of Data.Bags
	hidden               []bool // bags whose context this epoch does not show; nil: none
	union                *union // of this aspect with others; nil: it is the only one
	comparing            comparing

	schedule schedule
	progress *Progress
	report   func(Progress)
	lossSum  float64
	lossN    int
}

func newEpoch(d *Data, batch int) *Epoch {
	e := &Epoch{Network: Network{Data: d}, Batch: batch}
	for i, b := range d.Bags {
		if b.Violation {
			e.violating = append(e.violating, i)
		} else {
			e.compliant = append(e.compliant, i)
		}
	}
	return e
}

// sigmaMicro is the given value, or the estimate from the bags. It is at least 1e-2, so that pi_micro stays positive
// when every violating bag has a single instance.
func (e *Epoch) sigmaMicro(given float64) float64 {
	if given == 0 {
		given, _ = e.Data.sigmas()
	}
	return max(given, 1e-2)
}

// pi is the share of normal instances in violating bags, sigma_micro/(sigma_micro+1): the prior of PU learning.
func (e *Epoch) pi(sigmaMicro float64) float64 {
	sigma := e.sigmaMicro(sigmaMicro)
	return sigma / (sigma + 1)
}

// Stage starts a stage of the epoch, whose loss is averaged and reported separately.
func (e *Epoch) Stage(name string) {
	e.progress.Stage, e.progress.Loss = name, 0
	e.lossSum, e.lossN = 0, 0
}

// step trains on one mini-batch, and on a share of the comparisons, at the learning rate of the schedule and reports the
// running mean of the stage's loss.
func (e *Epoch) step(batch []rewardmodel.Sequence, loss aspectLoss) error {
	batch, loss = e.comparing.join(batch, loss)
	return e.advance(func(lr float64) (float64, error) { return e.learner.step(batch, lr, loss) })
}

// StepLabeled trains on one mini-batch with the mean cross-entropy of its labels.
func (e *Epoch) StepLabeled(batch []rewardmodel.Sequence, violation []bool) error {
	return e.step(batch, plain(CrossEntropy, violation, 1))
}

// StepFeatures trains on one mini-batch with a loss on features (see FeatureLoss), which also gets the learning rate, to
// update the method's own parameters.
func (e *Epoch) StepFeatures(batch []rewardmodel.Sequence, loss func(features [][]float32, lr float64) (float64, [][]float32)) error {
	return e.advance(func(lr float64) (float64, error) {
		return e.learner.stepFeatures(batch, lr, func(features [][]float32) (float64, [][]float32) { return loss(features, lr) })
	})
}

func (e *Epoch) advance(step func(lr float64) (float64, error)) error {
	if err := e.ctx.Err(); err != nil {
		return err
	}
	lr := e.schedule.rate(e.progress.Step)
	value, err := step(lr)
	if errors.Is(err, ErrNotFinite) {
		return &DivergedError{Step: e.progress.Step + 1, Stage: e.progress.Stage, Rate: lr}
	}
	if err != nil {
		return err
	}
	e.lossSum += value
	e.lossN++
	e.progress.Step++
	e.progress.LearningRate, e.progress.Loss = lr, e.lossSum/float64(e.lossN)
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return &DivergedError{Step: e.progress.Step, Stage: e.progress.Stage, Rate: lr}
	}
	e.report(*e.progress)
	return nil
}

// blankScores returns a zero score for each instance of each bag.
func (e *Epoch) blankScores() [][]float64 {
	scores := make([][]float64, len(e.Data.Bags))
	for i, b := range e.Data.Bags {
		scores[i] = make([]float64, len(b.Instances))
	}
	return scores
}

// instancesOf returns the sequences of instances.
func (e *Epoch) instancesOf(batch []ref) []rewardmodel.Sequence {
	seqs := make([]rewardmodel.Sequence, len(batch))
	for i, r := range batch {
		seqs[i] = e.Instance(r.bag, r.instance)
	}
	return seqs
}

// Instance returns an instance of a bag, without its context if this epoch hides that.
func (e *Epoch) Instance(bag, instance int) rewardmodel.Sequence {
	return e.shown(bag, e.Data.Bags[bag].sequence(instance))
}

// Whole returns a bag as one sequence, without its context if this epoch hides that.
func (e *Epoch) Whole(bag int) rewardmodel.Sequence {
	return e.shown(bag, e.Data.Bags[bag].wholeSequence())
}

// shown is a sequence of a bag, without its context if this epoch hides it.
func (e *Epoch) shown(bag int, s rewardmodel.Sequence) rewardmodel.Sequence {
	if e.hidden != nil && e.hidden[bag] {
		s.Context = nil
	}
	return s
}

// hide chooses the bags whose context the epoch does not show, each with the given probability, so that the network
// also learns to do without.
func (e *Epoch) hide(probability float64, rng *rand.Rand) {
	e.hidden = nil
	if probability == 0 {
		return
	}
	e.hidden = make([]bool, len(e.Data.Bags))
	if e.union != nil {
		e.union.epoch.hide(probability, rng)
		for i, own := range e.union.own {
			for _, bag := range own {
				e.hidden[bag] = e.union.epoch.hidden[i]
			}
		}
		return
	}
	for i := range e.hidden {
		e.hidden[i] = rng.Float64() < probability
	}
}

// BagBatches splits the bags, in random order, into mini-batches of whole bags with at least e.Batch instances, except
// for the last one. In a run of several aspects, they may be empty.
func (e *Epoch) BagBatches(rng *rand.Rand) [][]int {
	if e.union != nil {
		return e.union.bagBatches(rng)
	}
	var batches [][]int
	var batch []int
	instances := 0
	for _, bag := range rng.Perm(len(e.Data.Bags)) {
		batch, instances = append(batch, bag), instances+len(e.Data.Bags[bag].Instances)
		if instances >= e.Batch {
			batches, batch, instances = append(batches, batch), nil, 0
		}
	}
	if len(batch) > 0 {
		batches = append(batches, batch)
	}
	return batches
}

// bagSteps is the number of mini-batches of whole bags of an epoch: exact if all bags have the same length, otherwise it
// varies a little with their order.
func bagSteps(e *Epoch) int { return len(e.BagBatches(rand.New(rand.NewPCG(0, 0)))) }

// members returns the instances of the bags, bag by bag; those of bags[i] are batch[starts[i]:starts[i+1]].
func (e *Epoch) members(bags []int) (batch []ref, starts []int) {
	starts = []int{0}
	for _, bag := range bags {
		for k := range e.Data.Bags[bag].Instances {
			batch = append(batch, ref{bag, k})
		}
		starts = append(starts, len(batch))
	}
	return batch, starts
}

// instanceBatches splits all instances into mini-batches of e.Batch in random order. With a union they are its
// mini-batches without the bags of others, and may be empty.
func (e *Epoch) instanceBatches(rng *rand.Rand) [][]ref {
	if e.union != nil {
		return e.union.instanceBatches(rng)
	}
	all := make([]ref, 0, len(e.Data.Bags))
	for bag, b := range e.Data.Bags {
		for k := range b.Instances {
			all = append(all, ref{bag, k})
		}
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var batches [][]ref
	for _, part := range split(len(all), e.Batch) {
		batches = append(batches, all[part.start:part.end])
	}
	return batches
}

// instanceCount is the number of instances of all bags, those of the union if there is one.
func (e *Epoch) instanceCount() int {
	if e.union != nil {
		return e.union.epoch.instanceCount()
	}
	_, _, unlabeled, normal := e.Data.Counts()
	return unlabeled + normal
}

type interval struct{ start, end int }

// split splits n items into intervals of at most size.
func split(n, size int) []interval {
	var parts []interval
	for start := 0; start < n; start += size {
		parts = append(parts, interval{start, min(start+size, n)})
	}
	return parts
}

func batchCount(n, size int) int { return (n + size - 1) / size }

// schedule is the cosine annealing of the paper: from peak at step 0 to floor after the last of total steps. With a warmup,
// the rate first rises linearly to the peak over that many steps, the first with peak/warmup.
type schedule struct {
	peak, floor   float64
	warmup, total int
}

func (s schedule) rate(step int) float64 {
	if step < s.warmup {
		return s.peak * float64(step+1) / float64(s.warmup)
	}
	if step >= s.total {
		return s.floor
	}
	done := float64(step-s.warmup) / float64(s.total-s.warmup)
	return s.floor + (s.peak-s.floor)/2*(1+math.Cos(math.Pi*done))
}
