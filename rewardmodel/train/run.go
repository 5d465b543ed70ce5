package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
)

// ErrData says that the bags cannot be learned from.
var ErrData = errors.New("train: unusable bags")

// Config is a training run.
type Config struct {
	Method    Method
	Epochs    int     // the paper takes 5; 0 trains nothing and only fits the thresholds
	Batch     int     // instances in a mini-batch; the paper takes 16
	Rate      float64 // peak learning rate; the paper takes 1e-5
	RateMin   float64 // learning rate at the end of the cosine schedule; the paper takes 0
	Seed      uint64
	Threshold Threshold
	// Rescale makes every margin m of the learner scale*m + shift; when it is not nil the margins are calibrated after
	// the last epoch, before the thresholds are placed.
	Rescale func(scale, shift float64) error
	// SigmaMicro and SigmaMacro are the imbalances that the threshold assumes; 0 estimates them from the bags.
	SigmaMicro, SigmaMacro float64
	// State is a folder in which the run keeps what it needs to resume after its last whole epoch; empty keeps nothing.
	State string
	// Identity describes the rest of the run (base model, bags); a state made by another identity is refused.
	Identity string
	// Report receives the progress after every step; nil for none.
	Report func(Progress)
}

// Progress is where a run stands.
type Progress struct {
	Epoch, Epochs int // Epoch counts from 1
	Stage         string
	Step, Steps   int     // optimizer steps of the whole run
	Loss          float64 // mean over the stage so far
	LearningRate  float64
}

// Result is what a run found beside the weights, which stay in the Learner.
type Result struct {
	Thresholds             Thresholds
	SigmaMicro, SigmaMacro float64
	Resumed                int // epochs that an earlier run had already done
}

// Run trains learner on data and fits the thresholds. A cancelled context stops it between two steps; with
// Config.State the next Run goes on after the last whole epoch and ends with the same weights as an unbroken one.
func Run(ctx context.Context, learner Learner, data *Data, cfg Config) (Result, error) {
	if err := cfg.validate(data); err != nil {
		return Result{}, err
	}
	e := newEpoch(data, cfg.Batch)
	progress := Progress{Epochs: cfg.Epochs}
	e.ctx, e.learner, e.progress, e.report = ctx, learner, &progress, cfg.Report
	if e.report == nil {
		e.report = func(Progress) {}
	}
	perEpoch := cfg.Method.Steps(e)
	progress.Steps = cfg.Epochs * perEpoch
	e.schedule = schedule{peak: cfg.Rate, floor: cfg.RateMin, total: progress.Steps}

	state, err := openState(cfg)
	if err != nil {
		return Result{}, err
	}
	if state.Epochs > 0 {
		if err := learner.LoadState(state.weights()); err != nil {
			return Result{}, fmt.Errorf("train: resume from %s: %w", cfg.State, err)
		}
	}
	for n := state.Epochs; n < cfg.Epochs; n++ {
		e.Number, progress.Epoch, progress.Step = n, n+1, n*perEpoch
		e.RNG = rand.New(rand.NewPCG(cfg.Seed, uint64(n)))
		if err := cfg.Method.Epoch(e); err != nil {
			return Result{}, fmt.Errorf("train: epoch %d: %w", n+1, err)
		}
		if err := state.save(learner, n+1); err != nil {
			return Result{}, err
		}
	}
	scores := e.blankScores()
	if err := e.score(slices.Concat(e.violating, e.compliant), scores); err != nil {
		return Result{}, err
	}
	if cfg.Rescale != nil {
		if err := calibrate(e, scores, cfg.Rescale); err != nil {
			return Result{}, err
		}
	}
	micro, macro := cfg.sigmas(data)
	thresholds, err := cfg.Threshold.fit(e, scores, micro, macro)
	if err != nil {
		return Result{}, err
	}
	return Result{Thresholds: thresholds, SigmaMicro: micro, SigmaMacro: macro, Resumed: state.resumed}, nil
}

func (cfg Config) sigmas(data *Data) (micro, macro float64) {
	micro, macro = data.sigmas()
	if cfg.SigmaMicro > 0 {
		micro = cfg.SigmaMicro
	}
	if cfg.SigmaMacro > 0 {
		macro = cfg.SigmaMacro
	}
	return micro, macro
}

func (cfg Config) validate(data *Data) error {
	switch {
	case cfg.Epochs < 0:
		return fmt.Errorf("train: epochs is %d; use 0 (only fit the thresholds) or more", cfg.Epochs)
	case cfg.Batch < 1:
		return fmt.Errorf("train: batch is %d; use at least 1", cfg.Batch)
	case !(cfg.Rate > 0):
		return fmt.Errorf("train: learning rate is %v; use a positive number", cfg.Rate)
	case !(cfg.RateMin >= 0 && cfg.RateMin <= cfg.Rate):
		return fmt.Errorf("train: final learning rate is %v; use 0 to %v", cfg.RateMin, cfg.Rate)
	}
	if err := cmp.Or(cfg.Threshold.Validate(), cfg.Method.Validate()); err != nil {
		return err
	}
	for i, b := range data.Bags {
		if len(b.Instances) == 0 {
			return fmt.Errorf("%w: bag %d has no instance", ErrData, i)
		}
	}
	violating, compliant, _, _ := data.Counts()
	if violating == 0 || compliant == 0 {
		return fmt.Errorf("%w: %d violating and %d compliant bags; at least one of each is needed", ErrData, violating, compliant)
	}
	return nil
}
