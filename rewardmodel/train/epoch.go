package train

import (
	"context"
	"math/rand/v2"
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

// score fills scores[bag][instance] of the violating bags with margins in evaluation mode.
func (e *Epoch) score(scores [][]float64) error {
	for _, bag := range e.violating {
		if err := e.ctx.Err(); err != nil {
			return err
		}
		logits, err := e.learner.Logits(e.Data.Bags[bag].Instances)
		if err != nil {
			return err
		}
		for k, z := range logits {
			scores[bag][k] = margin(z)
		}
	}
	return nil
}

func (e *Epoch) sequences(batch []ref) [][]int32 {
	seqs := make([][]int32, len(batch))
	for i, r := range batch {
		seqs[i] = e.Data.Bags[r.bag].Instances[r.instance]
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
