package train

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
)

// Method plans the epochs of a way to train.
type Method interface {
	// Name is how the command line and the checkpoint call the method.
	Name() string
	// Validate names the setting that is out of range.
	Validate() error
	// Steps is the number of optimizer steps of one epoch; the cosine schedule spans all epochs.
	Steps(e *Epoch) int
	// Epoch trains for one epoch. Its randomness comes from e.RNG alone, so that a resumed run repeats it.
	Epoch(e *Epoch) error
}

// Epoch is what a Method works with during one epoch.
type Epoch struct {
	Number int // from 0
	Data   *Data
	Batch  int        // instances in a mini-batch
	RNG    *rand.Rand // seeded by the run's seed and the epoch

	violating, compliant []int // indices of Data.Bags

	ctx      context.Context
	learner  Learner
	schedule schedule
	progress *Progress
	report   func(Progress)
	lossSum  float64
	lossN    int
}

func newEpoch(d *Data, batch int) *Epoch {
	e := &Epoch{Data: d, Batch: batch}
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

// stage starts a part of the epoch: its loss is averaged and reported apart.
func (e *Epoch) stage(name string) {
	e.progress.Stage, e.progress.Loss = name, 0
	e.lossSum, e.lossN = 0, 0
}

// step trains on one mini-batch at the learning rate of the schedule and reports the running mean of the stage's loss.
func (e *Epoch) step(batch []ref, loss Loss) error {
	if err := e.ctx.Err(); err != nil {
		return err
	}
	lr := e.schedule.rate(e.progress.Step)
	value, err := e.learner.Step(e.sequences(batch), lr, loss)
	if err != nil {
		return err
	}
	e.lossSum += value
	e.lossN++
	e.progress.Step++
	e.progress.LearningRate, e.progress.Loss = lr, e.lossSum/float64(e.lossN)
	e.report(*e.progress)
	return nil
}

// scoringBatch is how many instances are scored at once.
const scoringBatch = 256

// score fills scores[bag][instance] of the given bags with margins in evaluation mode. Instances of like length go
// together, which libtorch computes fastest.
func (e *Epoch) score(bags []int, scores [][]float64) error {
	var all []ref
	for _, bag := range bags {
		for k := range e.Data.Bags[bag].Instances {
			all = append(all, ref{bag, k})
		}
	}
	slices.SortStableFunc(all, func(a, b ref) int { return cmp.Compare(len(e.sequence(a)), len(e.sequence(b))) })
	for _, part := range split(len(all), scoringBatch) {
		if err := e.ctx.Err(); err != nil {
			return err
		}
		batch := all[part.start:part.end]
		logits, err := e.learner.Logits(e.sequences(batch))
		if err != nil {
			return err
		}
		for i, r := range batch {
			scores[r.bag][r.instance] = margin(logits[i])
		}
	}
	return nil
}

// blankScores is a slot for the score of each instance of each bag.
func (e *Epoch) blankScores() [][]float64 {
	scores := make([][]float64, len(e.Data.Bags))
	for i, b := range e.Data.Bags {
		scores[i] = make([]float64, len(b.Instances))
	}
	return scores
}

func (e *Epoch) sequence(r ref) []int32 { return e.Data.Bags[r.bag].Instances[r.instance] }

func (e *Epoch) sequences(batch []ref) [][]int32 {
	seqs := make([][]int32, len(batch))
	for i, r := range batch {
		seqs[i] = e.sequence(r)
	}
	return seqs
}

type interval struct{ start, end int }

// split cuts n items into runs of at most size.
func split(n, size int) []interval {
	var parts []interval
	for start := 0; start < n; start += size {
		parts = append(parts, interval{start, min(start+size, n)})
	}
	return parts
}

func batchCount(n, size int) int { return (n + size - 1) / size }
