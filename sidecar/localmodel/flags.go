package localmodel

import (
	"fmt"
	"os"
	"path/filepath"

	"assay/rewardmodel"
	"assay/rewardmodel/encoder"
	"assay/sidecar/cli"
)

// Flags specify the model and how it runs.
type Flags struct {
	Model          string `default:"${model}" placeholder:"DIR" help:"Checkpoint directory, or its name under models/ (${default}). A relative path is looked up in the working directory, next to the binary, in the parent of that directory, and in its share/assay."`
	AllowUntrained bool   `help:"Accept a base model; its randomly initialized classification head gives meaningless scores."`
	ComputeFlags
}

// ComputeFlags specify how libtorch computes.
type ComputeFlags struct {
	Precision string  `default:"auto" enum:"auto,fp32,bf16,int8" help:"Dtype of the computation (${enum}); auto is int8 to score with a model whose weights are stored in int8, else bf16 where the hardware supports it. int8 is faster, for scoring only, and is validated against fp32 when the model is loaded."`
	Limit     float64 `name:"precision-limit" default:"${precision_limit}" help:"Maximum mean absolute difference between the int8 and fp32 violations of the built-in texts; a model above it is refused. A single text may differ ten times as much."`
	Packed    string  `name:"packed-weights" default:"auto" placeholder:"DIR" help:"Directory that keeps models in int8 and bf16 as they are computed with: they load at once, and processes share their memory. auto: assay/weights in the user's cache directory; none: nowhere. Its files may be deleted at any time."`
	Device    string  `default:"auto" help:"Device of the computation: auto, cpu or cuda:N."`
	Threads   int     `default:"0" help:"CPU threads of libtorch; 0: all CPUs available to the process."`
}

// Config is the model that the flags describe.
func (f Flags) Config() Config {
	return Config{Model: f.Model, AllowUntrained: f.AllowUntrained, Compute: f.ComputeFlags.Compute()}
}

// Compute is the computation that the flags describe.
func (f ComputeFlags) Compute() Compute {
	return Compute{Precision: encoder.Precision(f.Precision), PrecisionLimit: f.Limit, PackedDir: packedDir(f.Packed), Device: f.Device, Threads: f.Threads}
}

// packedDir is the directory of --packed-weights; "" for none, as where a user has no cache directory.
func packedDir(flag string) string {
	switch flag {
	case "none":
		return ""
	case "auto":
		cache, err := os.UserCacheDir()
		if err != nil {
			return ""
		}
		return filepath.Join(cache, "assay", "weights")
	}
	return flag
}

// ScorerFlags set the limits of a scorer.
type ScorerFlags struct {
	CacheBytes     cli.ByteSize `default:"${cache_bytes}" placeholder:"BYTES" help:"Memory of the score cache for repeated instances (${default}); 0: no cache."`
	MaxInstances   int          `default:"${max_instances}" help:"Maximum instances scored per response; the others are skipped, and the result has \"truncated\"."`
	EmptyReward    float64      `default:"0" help:"Compliance in [0,1] of a response without text."`
	MaxBatchTokens int          `default:"${max_batch_tokens}" help:"Maximum tokens per batch; a GPU can use more, for example 16384."`
}

// Check reports invalid values.
func (f ScorerFlags) Check() error {
	switch {
	case f.MaxInstances < 1:
		return cli.Usage(fmt.Errorf("--max-instances is %d; give at least 1", f.MaxInstances))
	case !(f.EmptyReward >= 0 && f.EmptyReward <= 1):
		return cli.Usage(fmt.Errorf("--empty-reward is %v; it must be in [0,1]", f.EmptyReward))
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

// UnboundedQueue is the queue size of a scorer whose only caller limits its own requests.
const UnboundedQueue = 1 << 40
