package localmodel

import (
	"fmt"

	"assay/rewardmodel"
	"assay/rewardmodel/encoder"
	"assay/sidecar/cli"
)

// Flags say which model scores and how it is run.
type Flags struct {
	Model          string `default:"${model}" placeholder:"DIR" help:"Checkpoint directory, or its name below models/ (${default}); looked for in the working directory, then next to the binary."`
	AllowUntrained bool   `help:"Accept a base model, whose randomly initialized head gives scores without meaning."`
	ComputeFlags
}

// ComputeFlags say where libtorch computes.
type ComputeFlags struct {
	Precision string  `default:"auto" enum:"auto,fp32,bf16,int8" help:"Number format of the computation (${enum}); auto is bf16 where the processor has it. int8 is for scoring alone: faster, checked against fp32 when the model is loaded."`
	Limit     float64 `name:"precision-limit" default:"${precision_limit}" help:"How far int8 may move the violation of built-in texts from fp32, on average, before a model is refused; one of them may move ten times as far."`
	Device    string  `default:"auto" help:"auto, cpu or cuda:N."`
	Threads   int     `default:"0" help:"CPU threads of libtorch; 0 is all that the process may use."`
}

// Config is the model that the flags describe.
func (f Flags) Config() Config {
	return Config{Model: f.Model, AllowUntrained: f.AllowUntrained, Compute: f.ComputeFlags.Compute()}
}

// Compute is the computation that the flags describe.
func (f ComputeFlags) Compute() Compute {
	return Compute{Precision: encoder.Precision(f.Precision), PrecisionLimit: f.Limit, Device: f.Device, Threads: f.Threads}
}

// ScorerFlags bound what a scorer does and keeps.
type ScorerFlags struct {
	CacheBytes     cli.ByteSize `default:"${cache_bytes}" placeholder:"BYTES" help:"Memory for the scores of instances that come again (${default}); 0: no cache."`
	MaxInstances   int          `default:"${max_instances}" help:"Instances of a response that are scored; the rest is skipped and reported by \"truncated\"."`
	EmptyReward    float64      `default:"0" help:"Compliance in [0,1] of a response without any text."`
	MaxBatchTokens int          `default:"${max_batch_tokens}" help:"Tokens of one batch; a GPU takes more at once, such as 16384."`
}

// Check finds values that cannot work.
func (f ScorerFlags) Check() error {
	switch {
	case f.MaxInstances < 1:
		return cli.Usage(fmt.Errorf("--max-instances is %d; give at least 1", f.MaxInstances))
	case !(f.EmptyReward >= 0 && f.EmptyReward <= 1):
		return cli.Usage(fmt.Errorf("--empty-reward is %v; it must lie in [0,1]", f.EmptyReward))
	case f.MaxBatchTokens < 1:
		return cli.Usage(fmt.Errorf("--max-batch-tokens is %d; give at least 1", f.MaxBatchTokens))
	}
	return nil
}

// Config configures a scorer; its queue is the caller's decision.
func (f ScorerFlags) Config() rewardmodel.ScorerConfig {
	return rewardmodel.ScorerConfig{
		CacheBytes: int64(f.CacheBytes), MaxInstances: f.MaxInstances,
		EmptyReward: f.EmptyReward, MaxBatchTokens: f.MaxBatchTokens,
	}
}

// UnboundedQueue is the queue of a scorer whose only caller bounds itself.
const UnboundedQueue = 1 << 40
