package localmodel

import (
	"github.com/alecthomas/kong"

	"assay/rewardmodel"
	"assay/rewardmodel/encoder"
	"assay/rewardmodel/train"
	"assay/sidecar/cli"
)

// Defaults are the default values of the flags in this package. A program whose commands use these flags needs Defaults
// among its options.
func Defaults() kong.Vars {
	bfgpu, thresholds := train.DefaultBFGPU(), AutoThreshold
	for _, kind := range train.ThresholdKinds() {
		thresholds += "," + string(kind)
	}
	return cli.Defaults(map[string]any{
		"model": DefaultModel, "precision_limit": encoder.DefaultPrecisionLimit,
		"cache_bytes": cli.ByteSize(DefaultCacheBytes), "max_instances": rewardmodel.DefaultScoredInstances,
		"max_batch_tokens": rewardmodel.DefaultMaxBatchTokens,
		"bfgpu_weights":    bfgpu.Weights, "bfgpu_normaliser": bfgpu.Normaliser, "bfgpu_loss": bfgpu.Loss, "bfgpu_pu_loss": bfgpu.PULoss,
		"bfgpu_lambda_bag": bfgpu.LambdaBag, "lambda_comparison": train.DefaultLambdaComparison, "threshold_kinds": thresholds, "false_alarms": train.DefaultFalseAlarms,
		"top_k": rewardmodel.DefaultTopK,
	})
}
