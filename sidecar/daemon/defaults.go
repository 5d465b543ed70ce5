package daemon

import (
	"cmp"
	"maps"

	"github.com/alecthomas/kong"

	"assay/queue"
	"assay/queue/embedded"
	"assay/rewardmodel"
	"assay/sidecar/cli"
	"assay/sidecar/fleet"
	"assay/sidecar/serve"
)

// Defaults are the default values of the flags in this package.
func Defaults() kong.Vars {
	s, training := serve.DefaultConfig(), fleet.DefaultConfig()
	policy := training.Policy
	defaults := map[string]any{
		"listen": s.Listen, "max_body": cli.ByteSize(s.API.MaxBody), "request_timeout": s.API.RequestTimeout,
		"max_responses":  cmp.Or(s.API.Limits.MaxResponses, rewardmodel.DefaultMaxResponses),
		"live_sessions":  s.Live.Sessions,
		"live_idle":      s.Live.Idle,
		"live_bytes":     cli.ByteSize(s.Live.Bytes),
		"request_memory": cli.ByteSize(s.RequestMemory), "shutdown_timeout": s.ShutdownTimeout,
		"max_queue_tokens": rewardmodel.DefaultMaxQueueTokens, "models_loaded": s.ModelsLoaded,

		"nats_listen": embedded.DefaultListen, "nats_max_payload": cli.ByteSize(embedded.DefaultMaxPayload),
		"nats_max_store": cli.ByteSize(embedded.DefaultMaxStore), "nats_max_requests": queue.DefaultMaxRequests,
		"max_in_flight": queue.DefaultMaxInFlight, "max_ack_pending": queue.DefaultMaxAckPending,
		"ack_wait": queue.DefaultAckWait, "max_deliver": queue.DefaultMaxDeliver, "sync_interval": embedded.RelaxedSync,

		"train_auto": policy.Auto, "train_min_bags": policy.MinBags, "train_min_each": policy.MinEach,
		"train_cooldown": policy.Cooldown, "train_every": policy.Every,
		"train_drift": policy.Drift, "train_drift_min": policy.DriftMin,
		"train_disagreement": policy.Disagreement, "train_disagreement_min": policy.DisagreementMin,
		"holdout_share": policy.HoldoutShare, "holdout_min": policy.MinHeldOut, "max_sender_share": policy.MaxSenderShare,
		"train_from": training.From, "train_max_bags": training.MaxBags, "train_timeout": training.Timeout,
		"train_threshold": training.Threshold, "train_false_alarms": training.FalseAlarms,
		"models_keep": training.ModelsKeep,
	}
	maps.Copy(defaults, proxyDefaults())
	return cli.Defaults(defaults)
}
