package localmodel

import "assay/rewardmodel/encoder"

// Config specifies the model and how it runs.
type Config struct {
	Model          string // checkpoint directory, or its name below models/
	AllowUntrained bool   // accept a base model, whose randomly initialized classification head gives meaningless scores
	Compute
}

// Compute specifies how libtorch computes. The zero value selects the defaults for the machine.
type Compute struct {
	Precision encoder.Precision
	// PrecisionLimit is the maximum mean absolute difference between the int8 and fp32 violations of the built-in texts;
	// a model above it is refused. 0: encoder.DefaultPrecisionLimit.
	PrecisionLimit float64
	PackedDir      string // of models in int8 and bf16 as they are computed with; "" keeps none
	Device         string // auto (or empty), cpu or cuda:N
	Threads        int    // of the CPU; 0: all CPUs available to the process

	Warn func(error) // what costs only time, such as a PackedDir that another user can write; nil: no call

	Watch encoder.CallWatcher // of forward passes and faults; nil: none
}

// Defaults of the flags.
const (
	DefaultModel      = "models/default"
	DefaultCacheBytes = 64 << 20 // of a scorer
)

// Runtime starts libtorch. The caller closes it.
func (c Compute) Runtime() (*encoder.Runtime, error) {
	return encoder.NewRuntime(encoder.RuntimeOptions{Threads: c.Threads, Device: c.Device, PrecisionLimit: c.PrecisionLimit, PackedDir: c.PackedDir, Warn: c.Warn, Watch: c.Watch})
}
