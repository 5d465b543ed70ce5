package fleet

import (
	"cmp"
	"runtime"
	"time"

	"assay/rewardmodel/gate"
	"assay/rewardmodel/retrain"
	"assay/rewardmodel/train"
	"assay/sidecar/localmodel"
)

// Config configures training on feedback.
type Config struct {
	Policy retrain.Policy // when a training run starts

	From         string        // model to fine-tune: FromBase or FromCurrent
	MaxBags      int           // maximum labeled responses per training run, newest first
	Epochs       int           // 0: 3, or 5 for few bags and a base model
	LearningRate float64       // peak; 0: 2e-5, or 5e-5 in the case of 5 epochs
	Threshold    string        // rule of the decision threshold: localmodel.AutoThreshold, or a train.Threshold
	FalseAlarms  float64       // share of the rule train.FalseAlarms
	Threads      int           // of the CPU; 0: half of the CPUs available to the process
	Memory       int64         // memory limit of a training run in bytes; 0: no limit
	Timeout      time.Duration // maximum duration of a training run

	Gate       gate.Config // acceptance of candidates; its MinBags is Policy.MinHeldOut
	ModelsKeep int         // number of promoted versions to keep in the object store

	// Program is the assay binary of the child processes that train and run the gate; "": the running binary, which must
	// be assay.
	Program string
}

// Models to fine-tune.
const (
	FromBase    = "base"    // always the model that the service was started with
	FromCurrent = "current" // the model that serves
)

// DefaultConfig has the defaults of the flags.
func DefaultConfig() Config {
	return Config{
		Policy: retrain.DefaultPolicy(),
		From:   FromBase, MaxBags: 20000, Timeout: 6 * time.Hour,
		Threshold: localmodel.AutoThreshold, FalseAlarms: train.DefaultFalseAlarms,
		Gate: gate.DefaultConfig(), ModelsKeep: 10,
	}
}

// recipe has the best settings measured (docs/benchmarks.md): a randomly initialized classification head needs more steps
// than few bags give in 3 epochs, and a higher learning rate.
func (c Config) recipe(untrained bool, bags int) (epochs int, rate float64) {
	epochs, rate = 3, 2e-5
	if untrained && bags <= 300 {
		epochs, rate = 5, 5e-5
	}
	return cmp.Or(c.Epochs, epochs), cmp.Or(c.LearningRate, rate)
}

// threads are the CPU threads of a training run; the default leaves half for scoring.
func (c Config) threads() int {
	if c.Threads > 0 {
		return c.Threads
	}
	return max(1, runtime.GOMAXPROCS(0)/2)
}

// settings are the training settings in the record of a model.
func (c Config) settings() map[string]any {
	return map[string]any{"from": c.From, "epochs": c.Epochs, "lr": c.LearningRate, "threshold": c.Threshold, "holdout_share": c.Policy.HoldoutShare,
		"max_sender_share": c.Policy.MaxSenderShare}
}
