package fleet

import (
	"cmp"
	"runtime"
	"time"

	"assay/rewardmodel/gate"
	"assay/rewardmodel/retrain"
)

// Config says when and how feedback is trained on.
type Config struct {
	Policy retrain.Policy // when a training run starts

	From         string        // what training runs fine-tune: FromBase or FromCurrent
	MaxBags      int           // labelled responses of a training run, the new ones first
	Epochs       int           // 0: 3, or 5 over few bags from a base model
	LearningRate float64       // at its peak; 0: 2e-5, or 5e-5 where there are 5 epochs
	Threads      int           // of the CPU; 0: half of those that the process may use
	Memory       int64         // bytes that a training run may hold; 0: no limit
	Timeout      time.Duration // maximum duration of a training run

	Gate       gate.Config // what a candidate has to pass; its MinBags is Policy.MinHeldOut
	ModelsKeep int         // promoted versions whose files are kept in the object store

	// Program is the binary of assay that child processes train and judge with; "" is the one that runs, which must be
	// assay then.
	Program string
}

// What a training run initializes from.
const (
	FromBase    = "base"    // the model that the service was started with, every time
	FromCurrent = "current" // the model that serves
)

// DefaultConfig is what the flags default to.
func DefaultConfig() Config {
	return Config{
		Policy: retrain.DefaultPolicy(),
		From:   FromBase, MaxBags: 20000, Timeout: 6 * time.Hour,
		Gate: gate.DefaultConfig(), ModelsKeep: 10,
	}
}

// recipe is what measured best (docs/benchmarks.md): a randomly initialized classifier needs a number of steps before it
// learns anything, which few bags do not give at the usual rate.
func (c Config) recipe(fresh bool, bags int) (epochs int, rate float64) {
	epochs, rate = 3, 2e-5
	if fresh && bags <= 300 {
		epochs, rate = 5, 5e-5
	}
	return cmp.Or(c.Epochs, epochs), cmp.Or(c.LearningRate, rate)
}

// threads leaves room for scoring.
func (c Config) threads() int {
	if c.Threads > 0 {
		return c.Threads
	}
	return max(1, runtime.GOMAXPROCS(0)/2)
}

// settings are the recipe as the record of a model shows it.
func (c Config) settings() map[string]any {
	return map[string]any{"from": c.From, "epochs": c.Epochs, "lr": c.LearningRate, "holdout_share": c.Policy.HoldoutShare}
}
