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

// RetrainFlags configure training on feedback. "assay serve" and "assay trainer" share them.
type RetrainFlags struct {
	TrainAuto            bool          `default:"${train_auto}" negatable:"" help:"Start training runs automatically; with --no-train-auto, only on request."`
	TrainMinBags         int           `default:"${train_min_bags}" help:"New labeled responses that start a training run; 0: no such trigger."`
	TrainMinEach         int           `default:"${train_min_each}" help:"Minimum responses per label among the new ones, and in the training set; of a model with several aspects, in at least one of them."`
	TrainCooldown        time.Duration `default:"${train_cooldown}" help:"Cooldown after a training run; doubled for each consecutive failure."`
	TrainEvery           time.Duration `default:"${train_every}" help:"Interval of scheduled training runs, skipped without new labels; 0: no schedule."`
	TrainDrift           float64       `default:"${train_drift}" help:"Kolmogorov-Smirnov distance between current scores and those after the promotion that starts a training run; 0: no such trigger."`
	TrainDriftMin        int           `default:"${train_drift_min}" help:"Minimum scores for the drift trigger."`
	TrainDisagreement    float64       `default:"${train_disagreement}" help:"Share of new labels that contradict the model's decision that starts a training run; 0: no such trigger."`
	TrainDisagreementMin int           `default:"${train_disagreement_min}" help:"Minimum labels for the disagreement trigger."`
	HoldoutShare         float64       `default:"${holdout_share}" help:"Share of the labeled responses in the hold-out, which evaluates candidates and is never trained on; responses to the same prompt stay together."`
	HoldoutMin           int           `default:"${holdout_min}" help:"Minimum held-out responses per label to train or promote; of a model with several aspects, in at least one of them. With fewer than ${default}, the gate can promote worse models."`

	MaxSenderShare float64 `default:"${max_sender_share}" help:"Maximum share of one sender (the name of a token) in the responses of either label that a training run uses or a promotion adds to the hold-out; further ones are omitted. 1: no limit."`

	TrainFrom        string        `default:"${train_from}" enum:"base,current" help:"Model to fine-tune (${enum}): base, always --model; current, the model that serves."`
	TrainMaxBags     int           `default:"${train_max_bags}" help:"Maximum labeled responses per training run, newest first."`
	TrainEpochs      int           `default:"0" help:"Number of epochs; 0: 3, or 5 for up to 300 responses and a base model without a classification head."`
	TrainLR          float64       `default:"0" name:"train-lr" help:"Peak learning rate; 0: 2e-5, or 5e-5 in the case of 5 epochs."`
	TrainThreshold   string        `default:"${train_threshold}" enum:"${threshold_kinds}" help:"How to choose the decision threshold (${enum}), as assay train --threshold."`
	TrainFalseAlarms float64       `default:"${train_false_alarms}" help:"Share of the compliant responses, in (0,0.5), that --train-threshold false-alarms flags."`
	TrainThreads     int           `default:"0" help:"CPU threads of a training run; 0: half of the CPUs available to the process."`
	TrainMemory      cli.ByteSize  `default:"0" placeholder:"BYTES" help:"Memory limit of a training run; 0: no limit."`
	TrainTimeout     time.Duration `default:"${train_timeout}" help:"Timeout of a training run."`

	GateMetric     string  `default:"${gate_metric}" enum:"bag_auroc,bag_auprc,avg_acc,f1_violation" help:"Metric to compare models by (${enum})."`
	GateMargin     float64 `default:"${gate_margin}" help:"Maximum decrease of the metric on the hold-out."`
	GateRegression float64 `default:"${gate_regression_margin}" name:"gate-regression-margin" help:"Maximum decrease of the metric on the regression set; the 120 responses of the shipped set cannot resolve much less."`
	GateConfidence float64 `default:"${gate_confidence}" help:"Confidence in [0.5,1) of the one-sided paired bootstrap."`
	GateMaxShift   float64 `default:"${gate_max_shift}" help:"Maximum mean change of the compliance reward on the probe set, after calibration."`
	GateAllowShift bool    `help:"Ignore the maximum change of the rewards."`

	ModelsKeep int `default:"${models_keep}" help:"Number of promoted versions to keep in the object store."`
}

// Config is the training that the flags describe.
func (f RetrainFlags) Config() fleet.Config {
	return fleet.Config{
		Policy: retrain.Policy{
			Auto: f.TrainAuto, MinBags: f.TrainMinBags, MinEach: f.TrainMinEach, Cooldown: f.TrainCooldown, Every: f.TrainEvery,
			Drift: f.TrainDrift, DriftMin: f.TrainDriftMin, Disagreement: f.TrainDisagreement, DisagreementMin: f.TrainDisagreementMin,
			HoldoutShare: f.HoldoutShare, MinHeldOut: f.HoldoutMin, MaxSenderShare: f.MaxSenderShare,
		},
		From: f.TrainFrom, MaxBags: f.TrainMaxBags, Epochs: f.TrainEpochs, LearningRate: f.TrainLR,
		Threshold: f.TrainThreshold, FalseAlarms: f.TrainFalseAlarms, Threads: f.TrainThreads,
		Memory: int64(f.TrainMemory), Timeout: f.TrainTimeout,
		Gate: gate.Config{
			Metric: gate.Metric(f.GateMetric), Margin: f.GateMargin, RegressionMargin: f.GateRegression, Confidence: f.GateConfidence,
			MinBags: f.HoldoutMin, MaxShift: f.GateMaxShift, AllowShift: f.GateAllowShift, Resamples: gate.DefaultConfig().Resamples,
		},
		ModelsKeep: f.ModelsKeep,
	}
}

// Check reports invalid values.
func (f RetrainFlags) Check() error {
	errs := []error{nameFlag(f.Config().Policy.Validate())}
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(f.TrainMaxBags >= 2*f.TrainMinEach, "--train-max-bags is %d; give at least %d, twice --train-min-each", f.TrainMaxBags, 2*f.TrainMinEach)
	check(f.TrainEpochs >= 0, "--train-epochs is %d; give 0 or more", f.TrainEpochs)
	check(f.TrainLR >= 0, "--train-lr is %v; give 0 or more", f.TrainLR)
	check(f.TrainFalseAlarms > 0 && f.TrainFalseAlarms < 0.5, "--train-false-alarms is %v; give a share in (0,0.5)", f.TrainFalseAlarms)
	check(f.TrainThreads >= 0, "--train-threads is %d; give 0 or more", f.TrainThreads)
	check(f.TrainMemory >= 0, "--train-memory is %d; give 0 or more", f.TrainMemory)
	check(f.TrainTimeout > 0, "--train-timeout is %v; give a duration above 0", f.TrainTimeout)
	check(f.GateMargin >= 0 && f.GateMargin < 1, "--gate-margin is %v; it must be in [0,1)", f.GateMargin)
	check(f.GateRegression >= 0 && f.GateRegression < 1, "--gate-regression-margin is %v; it must be in [0,1)", f.GateRegression)
	check(f.GateConfidence >= 0.5 && f.GateConfidence < 1, "--gate-confidence is %v; it must be in [0.5,1)", f.GateConfidence)
	check(f.GateMaxShift > 0 && f.GateMaxShift <= 1, "--gate-max-shift is %v; it must be in (0,1]", f.GateMaxShift)
	check(f.ModelsKeep >= 1, "--models-keep is %d; give at least 1", f.ModelsKeep)
	return errors.Join(errs...)
}

// nameFlag names the flag in an error about a policy setting.
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
		"MaxSenderShare": "--max-sender-share",
	}[setting.Field]
	return fmt.Errorf("%s %s", flag, strings.ReplaceAll(setting.Problem, "MinEach", "--train-min-each"))
}
