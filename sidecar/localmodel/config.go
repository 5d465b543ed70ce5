package localmodel

import "assay/rewardmodel/encoder"

// Config says which model scores and how it is run.
type Config struct {
	Model          string // checkpoint directory, or its name below models/
	AllowUntrained bool   // accept a base model, whose randomly initialized head gives scores without meaning
	Compute
}

// Compute says how libtorch computes. The zero value chooses what suits the machine.
type Compute struct {
	Precision encoder.Precision
	// PrecisionLimit is how far int8 may move the violation of the built-in texts from fp32, on average, before a model
	// is refused; 0: encoder.DefaultPrecisionLimit.
	PrecisionLimit float64
	Device         string // auto (or empty), cpu or cuda:N
	Threads        int    // of the CPU; 0: all that the process may use
}

// What the flags default to.
const (
	DefaultModel      = "models/default"
	DefaultCacheBytes = 64 << 20 // of a scorer
)

// Runtime starts libtorch. The caller closes it.
func (c Compute) Runtime() (*encoder.Runtime, error) {
	return encoder.NewRuntime(encoder.RuntimeOptions{Threads: c.Threads, Device: c.Device, PrecisionLimit: c.PrecisionLimit})
}
