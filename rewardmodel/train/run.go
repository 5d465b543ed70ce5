// Package train fits an instance classifier to bags that have only coarse labels. It is the training loop of BFGPU
// (Balanced Fine-Grained PU Learning, Algorithm 1 of the paper) in plain Go: what to train on, with which loss, at
// which learning rate, and how to set the decision threshold. The network, its gradients and its optimizer are behind
// the Learner interface.
//
// A training method is a Method: it plans one epoch as mini-batches with losses on logits or features. Run drives the
// epochs, stores a state to resume from, and fits the thresholds. The methods of the paper that cannot be served are in
// package baseline of assay-lab.
package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"assay/rewardmodel"
	"assay/rewardmodel/calibration"
	"assay/rewardmodel/logistic"
)

// ErrData is wrapped by the errors for bags that a run cannot train on.
var ErrData = errors.New("train: unusable bags")

// DivergedError reports that a loss was not finite: the weights are unusable, and the run has stopped.
type DivergedError struct {
	Step  int // from 1
	Stage string
	Rate  float64 // learning rate of the step
}

// Error includes the fix.
func (e *DivergedError) Error() string {
	return fmt.Sprintf("train: the %s loss of step %d is not finite; lower the learning rate (it was %g) or compute in fp32",
		e.Stage, e.Step, e.Rate)
}

// Config configures a training run.
type Config struct {
	Method  Method
	Epochs  int     // the paper uses 5; 0 only fits the thresholds
	Batch   int     // instances in a mini-batch; the paper uses 16
	Rate    float64 // peak learning rate; the paper uses 1e-5
	RateMin float64 // learning rate at the end of the cosine schedule; the paper uses 0
	// Warmup is the share of the steps, in [0,1), over which the learning rate rises linearly to its peak; the paper uses 0.
	Warmup    float64
	Seed      uint64
	Threshold Threshold
	// FalseAlarms is the share of the compliant bags, in (0,0.5), that the rule FalseAlarms flags, of each aspect alone. A
	// response violates if it violates any aspect, so a caller that allows a share of k aspects together gives each share/k.
	FalseAlarms float64
	// Fold is the share of the bags that is held out: the threshold (and the calibration) are fitted to their scores.
	// 0 fits them to the training bags.
	Fold float64
	// Rescale makes every margin m of an aspect of the learner scale*m + shift; when it is not nil the margins are
	// calibrated after the last epoch, before the thresholds are placed.
	Rescale func(aspect int, scale, shift float64) error
	// HideContext is the probability, in [0,1], that a bag is trained on without its context in an epoch.
	HideContext float64
	// LambdaComparison is the coefficient of the loss of Data.Comparisons, which each step has in addition to that of the method; 0:
	// they are not trained on.
	LambdaComparison float64
	// SigmaMicro and SigmaMacro are the imbalances that the threshold assumes; 0 estimates them from the bags.
	SigmaMicro, SigmaMacro float64
	// State is the directory for the state to resume from after the last complete epoch; empty: none is stored.
	State string
	// Identity describes the rest of the run (base model, bags); a state with another identity is rejected.
	Identity string
	// Report receives the progress after every step; nil for none.
	Report func(Progress)
}

// Progress is the progress of a run.
type Progress struct {
	Epoch, Epochs int // Epoch counts from 1
	Stage         string
	Step, Steps   int     // optimizer steps of the whole run
	Loss          float64 // mean over the stage so far
	LearningRate  float64
}

// Result is the result of a run, except for the weights, which stay in the Learner.
type Result struct {
	// Threshold is the margin above which the score of a bag is a violation.
	Threshold float64
	// Thresholds has one for each aggregate of instance scores, as probabilities; nil if the method scores only whole bags.
	Thresholds Thresholds
	// LengthSlope is the rewardmodel.Aspect.LengthSlope that belongs to the threshold of max; 0 except for FalseAlarms.
	LengthSlope float64
	// Calibration is the map of the rewards of max; the identity except for FalseAlarms.
	Calibration            calibration.Map
	FittedOn               *Data   // the bags of the thresholds: the training bags, or the fold
	Scores                 []Score // of FittedOn
	SigmaMicro, SigmaMacro float64
	Uncalibrated           error // why the margins could not be calibrated; nil if they were, or if Rescale is nil
	Resumed                int   // epochs that an earlier run had already done
}

// LogOdds returns the log-odds of compliance of the bags of FittedOn, 0 at the threshold of their length, and which of them
// are violations.
func (r Result) LogOdds() (logOdds []float64, violation []bool) {
	for i, b := range r.FittedOn.Bags {
		threshold := r.Threshold + r.LengthSlope*math.Log(float64(b.utterances()))
		logOdds, violation = append(logOdds, threshold-r.Scores[i].Bag), append(violation, b.Violation)
	}
	return logOdds, violation
}

// spreadRewards returns the map that spreads the rewards of the violating bags of FittedOn beyond the threshold.
func (r Result) spreadRewards() calibration.Map {
	logOdds, violation := r.LogOdds()
	var violating []float64
	for i, z := range logOdds {
		if violation[i] {
			violating = append(violating, z)
		}
	}
	return calibration.Spread(violating)
}

// Run trains learner on data and fits the thresholds. A canceled context stops it between two steps; with
// Config.State the next Run resumes after the last complete epoch and ends with the same weights as an uninterrupted one.
func Run(ctx context.Context, learner Learner, data *Data, cfg Config) (Result, error) {
	results, err := RunAspects(ctx, learner, []*Data{data}, cfg)
	if err != nil {
		return Result{}, err
	}
	return results[0], nil
}

// RunAspects is Run for a learner with several aspects, each with the bags that are labeled for it. They share the
// encoder and the mini-batches: a bag that is labeled for several of them is computed once. Bags of different aspects that
// have the same text should have the same slices, by which equal sequences are recognized.
//
// An aspect without data is kept as it is: its margins on the bags of the others are trained towards those of the
// learner at the start (learning without forgetting, Li and Hoiem 2016). Its result is the zero value.
func RunAspects(ctx context.Context, learner Learner, data []*Data, cfg Config) ([]Result, error) {
	if err := cfg.validate(data); err != nil {
		return nil, err
	}
	run := newRun(ctx, learner, cfg)
	held := map[sameSequence]bool{}
	results := make([]Result, len(data))
	for a, d := range data {
		if d == nil {
			run.kept = append(run.kept, a)
			continue
		}
		trained, fitted := d, d
		if cfg.Fold > 0 {
			trained, fitted = d.holdOut(cfg.Fold, cfg.Seed, held)
			if err := cmp.Or(cfg.check(trained), cfg.check(fitted)); err != nil {
				return nil, fmt.Errorf("%w; a fold of %g leaves too few", err, cfg.Fold)
			}
		}
		run.add(a, trained)
		results[a].FittedOn = fitted
	}
	resumed, err := run.epochs()
	if err != nil {
		return nil, err
	}
	scored := scoredOnce{learner, map[sameSequence][]float32{}}
	for a := range results {
		if results[a].FittedOn == nil {
			continue
		}
		results[a].Resumed = resumed
		if err := cfg.judge(ctx, aspectLearner{scored, a}, &results[a]); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// judge scores the bags of an aspect, calibrates its margins and places its thresholds.
func (cfg Config) judge(ctx context.Context, learner aspectLearner, result *Result) (err error) {
	network := &Network{Data: result.FittedOn, ctx: ctx, learner: learner}
	if result.Scores, err = cfg.Method.Score(network); err != nil {
		return err
	}
	instances := len(result.Scores) > 0 && result.Scores[0].Instances != nil
	if cfg.Rescale != nil {
		if !instances {
			return fmt.Errorf("train: %s has no instance scores to calibrate", cfg.Method.Name())
		}
		rescale := func(scale, shift float64) error { return cfg.Rescale(learner.aspect, scale, shift) }
		if err := calibrate(result.FittedOn, result.Scores, rescale); errors.Is(err, errCalibrate) {
			result.Uncalibrated = err
		} else if err != nil {
			return err
		}
	}
	result.SigmaMicro, result.SigmaMacro = cfg.sigmas(result.FittedOn)
	if cfg.Threshold == FalseAlarms {
		result.Thresholds, result.Threshold, result.LengthSlope = falseAlarms(result.FittedOn, result.Scores, cfg.FalseAlarms)
		result.Calibration = result.spreadRewards()
		return nil
	}
	result.Threshold, err = cfg.Threshold.Place(result.FittedOn, result.Scores, result.SigmaMicro, result.SigmaMacro)
	if err != nil {
		return err
	}
	if instances {
		result.Thresholds = cfg.Threshold.aggregateThresholds(result.FittedOn, result.Scores)
		if cfg.Threshold != PerBag || byLargest(result.Scores) {
			result.Thresholds[rewardmodel.AggregateMax] = logistic.Sigmoid(result.Threshold)
		}
	}
	return nil
}

// ScoreBags scores the bags of data for an aspect of a trained learner. The method must be the one that Run trained.
func ScoreBags(ctx context.Context, learner Learner, aspect int, data *Data, m Method) ([]Score, error) {
	return m.Score(&Network{Data: data, ctx: ctx, learner: aspectLearner{learner, aspect}})
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

func (cfg Config) validate(data []*Data) error {
	switch {
	case cfg.Epochs < 0:
		return fmt.Errorf("train: epochs is %d; use 0 (only fit the thresholds) or more", cfg.Epochs)
	case cfg.Batch < 1:
		return fmt.Errorf("train: batch is %d; use at least 1", cfg.Batch)
	case !(cfg.Rate > 0):
		return fmt.Errorf("train: learning rate is %v; use a positive number", cfg.Rate)
	case !(cfg.Fold >= 0 && cfg.Fold < 1):
		return fmt.Errorf("train: fold is %v; use a share of the bags in [0,1)", cfg.Fold)
	case !(cfg.HideContext >= 0 && cfg.HideContext <= 1):
		return fmt.Errorf("train: the probability of hiding the context is %v; use one in [0,1]", cfg.HideContext)
	case !(cfg.LambdaComparison >= 0):
		return fmt.Errorf("train: the coefficient of the comparisons is %v; use 0 or more", cfg.LambdaComparison)
	case !(cfg.Warmup >= 0 && cfg.Warmup < 1):
		return fmt.Errorf("train: the warm-up is %v; use a share of the steps in [0,1)", cfg.Warmup)
	case !(cfg.RateMin >= 0 && cfg.RateMin <= cfg.Rate):
		return fmt.Errorf("train: final learning rate is %v; use 0 to %v", cfg.RateMin, cfg.Rate)
	}
	if err := cmp.Or(cfg.Threshold.Validate(), cfg.Method.Validate()); err != nil {
		return err
	}
	if cfg.Threshold == FalseAlarms {
		if !(cfg.FalseAlarms > 0 && cfg.FalseAlarms < 0.5) {
			return fmt.Errorf("train: the share of false alarms is %v; use one in (0,0.5)", cfg.FalseAlarms)
		}
		if !servable(cfg.Method) {
			return fmt.Errorf("train: the threshold %s needs scores of instances, and %s may have none", FalseAlarms, cfg.Method.Name())
		}
	}
	trained := 0
	for _, d := range data {
		if d == nil {
			continue
		}
		trained++
		if err := cfg.check(d); err != nil {
			return err
		}
		if len(d.Comparisons) > 0 && !servable(cfg.Method) {
			return fmt.Errorf("train: %s cannot train on comparisons, since it may have no scores of instances", cfg.Method.Name())
		}
	}
	if trained == 0 {
		return fmt.Errorf("%w: no aspect has labels", ErrData)
	}
	if !servable(cfg.Method) && len(data) > 1 {
		return fmt.Errorf("train: %s trains a single aspect", cfg.Method.Name())
	}
	return nil
}

// onlyCompliant reports whether the run needs no violations: it neither trains nor calibrates, and its threshold reads none.
func (cfg Config) onlyCompliant() bool {
	return cfg.Epochs == 0 && cfg.Rescale == nil && cfg.Threshold == FalseAlarms
}

// check returns an error if the data of an aspect cannot be used.
func (cfg Config) check(d *Data) error {
	for i, b := range d.Bags {
		if len(b.Instances) == 0 {
			return fmt.Errorf("%w: bag %d has no instance", ErrData, i)
		}
	}
	violating, compliant, _, _ := d.Counts()
	if compliant == 0 || violating == 0 && !cfg.onlyCompliant() {
		return fmt.Errorf("%w: %d violating and %d compliant bags; at least one of each is needed", ErrData, violating, compliant)
	}
	return nil
}
