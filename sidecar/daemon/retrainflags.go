package daemon

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"assay/rewardmodel/gate"
	"assay/rewardmodel/retrain"
	"assay/sidecar/cli"
	"assay/sidecar/fleet"
)

// RetrainFlags say when and how feedback is trained on. "assay serve" and "assay trainer" share them.
type RetrainFlags struct {
	TrainAuto            bool          `default:"${train_auto}" negatable:"" help:"Train by itself; without it only when asked."`
	TrainMinBags         int           `default:"${train_min_bags}" help:"New labelled responses that start a training; 0: any number does not."`
	TrainMinEach         int           `default:"${train_min_each}" help:"Responses of each label among them, and the least that is trained on."`
	TrainCooldown        time.Duration `default:"${train_cooldown}" help:"Rest after a training; doubled for each failure in a row."`
	TrainEvery           time.Duration `default:"${train_every}" help:"Train at this interval when there is anything new; 0: no schedule."`
	TrainDrift           float64       `default:"${train_drift}" help:"Kolmogorov-Smirnov distance of the scores from those after the promotion that starts a training; 0: none does."`
	TrainDriftMin        int           `default:"${train_drift_min}" help:"Scores that such a distance takes."`
	TrainDisagreement    float64       `default:"${train_disagreement}" help:"Share of new labels against the model's decision that starts a training; 0: none does."`
	TrainDisagreementMin int           `default:"${train_disagreement_min}" help:"Labels that such a share takes."`
	HoldoutShare         float64       `default:"${holdout_share}" help:"Share of the labelled responses that is never trained on and judges candidates; responses to one prompt are on the same side."`
	HoldoutMin           int           `default:"${holdout_min}" help:"Held-out responses of each label without which nothing is trained or promoted. Fewer than ${default} promote models that are worse."`

	TrainFrom    string        `default:"${train_from}" enum:"base,current" help:"Where a training begins (${enum}): at --model every time, or at the model that serves."`
	TrainMaxBags int           `default:"${train_max_bags}" help:"Labelled responses of one training, the new ones first."`
	TrainEpochs  int           `default:"0" help:"Passes over them; 0: 3, or 5 over up to 300 from a base model without a classifier."`
	TrainLR      float64       `default:"0" name:"train-lr" help:"Peak learning rate; 0: 2e-5, or 5e-5 where there are 5 passes."`
	TrainThreads int           `default:"0" help:"CPU threads of a training; 0: half of those that the process may use."`
	TrainMemory  cli.ByteSize  `default:"0" placeholder:"BYTES" help:"Memory that a training may hold; 0: no limit."`
	TrainTimeout time.Duration `default:"${train_timeout}" help:"Longest time of a training."`

	GateMetric     string  `default:"${gate_metric}" enum:"bag_auroc,bag_auprc,avg_acc,f1_violation" help:"Figure in which a candidate may not be worse (${enum})."`
	GateMargin     float64 `default:"${gate_margin}" help:"How much worse it may be."`
	GateRegression float64 `default:"${gate_regression_margin}" name:"gate-regression-margin" help:"How much worse it may be on the regression set of its model; 120 responses, as the shipped one has, cannot show much less."`
	GateConfidence float64 `default:"${gate_confidence}" help:"How sure that must be, by paired bootstrap."`
	GateMaxShift   float64 `default:"${gate_max_shift}" help:"Mean change of the reward on the probe set above which a candidate is rejected."`
	GateAllowShift bool    `help:"Let rewards change as much as they do."`

	ModelsKeep int `default:"${models_keep}" help:"Promoted versions whose files are kept in the object store."`
}

// Config is the training that the flags describe.
func (f RetrainFlags) Config() fleet.Config {
	return fleet.Config{
		Policy: retrain.Policy{
			Auto: f.TrainAuto, MinBags: f.TrainMinBags, MinEach: f.TrainMinEach, Cooldown: f.TrainCooldown, Every: f.TrainEvery,
			Drift: f.TrainDrift, DriftMin: f.TrainDriftMin, Disagreement: f.TrainDisagreement, DisagreementMin: f.TrainDisagreementMin,
			HoldoutShare: f.HoldoutShare, MinHeldOut: f.HoldoutMin,
		},
		From: f.TrainFrom, MaxBags: f.TrainMaxBags, Epochs: f.TrainEpochs, LearningRate: f.TrainLR, Threads: f.TrainThreads,
		Memory: int64(f.TrainMemory), Timeout: f.TrainTimeout,
		Gate: gate.Config{
			Metric: gate.Metric(f.GateMetric), Margin: f.GateMargin, RegressionMargin: f.GateRegression, Confidence: f.GateConfidence,
			MinBags: f.HoldoutMin, MaxShift: f.GateMaxShift, AllowShift: f.GateAllowShift, Resamples: gate.DefaultConfig().Resamples,
		},
		ModelsKeep: f.ModelsKeep,
	}
}

// Check finds values that cannot work.
func (f RetrainFlags) Check() error {
	errs := []error{nameFlag(f.Config().Policy.Validate())}
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(f.TrainMaxBags >= 2*f.TrainMinEach, "--train-max-bags is %d; give at least %d, --train-min-each of both labels", f.TrainMaxBags, 2*f.TrainMinEach)
	check(f.TrainEpochs >= 0, "--train-epochs is %d; give 0 or more", f.TrainEpochs)
	check(f.TrainLR >= 0, "--train-lr is %v; give 0 or more", f.TrainLR)
	check(f.TrainThreads >= 0, "--train-threads is %d; give 0 or more", f.TrainThreads)
	check(f.TrainMemory >= 0, "--train-memory is %d; give 0 or more", f.TrainMemory)
	check(f.TrainTimeout > 0, "--train-timeout is %v; give a duration above 0", f.TrainTimeout)
	check(f.GateMargin >= 0 && f.GateMargin < 1, "--gate-margin is %v; it must lie in [0,1)", f.GateMargin)
	check(f.GateRegression >= 0 && f.GateRegression < 1, "--gate-regression-margin is %v; it must lie in [0,1)", f.GateRegression)
	check(f.GateConfidence >= 0.5 && f.GateConfidence < 1, "--gate-confidence is %v; it must lie in [0.5,1)", f.GateConfidence)
	check(f.GateMaxShift > 0 && f.GateMaxShift <= 1, "--gate-max-shift is %v; it must lie in (0,1]", f.GateMaxShift)
	check(f.ModelsKeep >= 1, "--models-keep is %d; give at least 1", f.ModelsKeep)
	return errors.Join(errs...)
}

// nameFlag adds the flag to an error about a setting of the policy.
func nameFlag(err error) error {
	var setting *retrain.SettingError
	if !errors.As(err, &setting) {
		return err
	}
	flag := map[string]string{
		"MinBags": "--train-min-bags", "MinEach": "--train-min-each", "Cooldown": "--train-cooldown", "Every": "--train-every",
		"Drift": "--train-drift", "DriftMin": "--train-drift-min",
		"Disagreement": "--train-disagreement", "DisagreementMin": "--train-disagreement-min",
		"HoldoutShare": "--holdout-share", "MinHeldOut": "--holdout-min",
	}[setting.Field]
	return fmt.Errorf("%s %s", flag, strings.ReplaceAll(setting.Problem, "MinEach", "--train-min-each"))
}
