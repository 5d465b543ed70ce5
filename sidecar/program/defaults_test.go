package program_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/queue"
	"assay/queue/embedded"
	"assay/rewardmodel"
	"assay/rewardmodel/encoder"
	"assay/rewardmodel/gate"
	"assay/rewardmodel/retrain"
	"assay/rewardmodel/train"
	"assay/sidecar/cli"
	"assay/sidecar/fleet"
	"assay/sidecar/program"
	"assay/sidecar/proxy"
	"assay/sidecar/serve"
)

// Every default has one definition, in the library.
func TestFlagDefaultsMatchTheLibraries(t *testing.T) {
	parsed := func(args ...string) *program.Commands {
		c, err := parse(t, args...)
		require.NoError(t, err)
		return c
	}
	require.Equal(t, gate.DefaultConfig(), parsed("gate", "--current", "a", "--candidate", "b", "--holdout", "c").Gate.Config())

	training := fleet.DefaultConfig()
	require.Equal(t, retrain.DefaultPolicy(), training.Policy)
	require.Equal(t, gate.DefaultConfig(), training.Gate)
	require.Equal(t, training, parsed("trainer", "--nats-url", "nats://127.0.0.1:4222").Trainer.RetrainFlags.Config())

	// The library keeps models as they are computed with only in a directory that is set; the command, in the cache directory of the user.
	got, err := parsed("serve", "--data-dir", "d", "--packed-weights", "none").Serve.Config()
	require.NoError(t, err)
	want := serve.DefaultConfig()
	want.DataDir = "d"
	want.API.Limits.MaxResponses = rewardmodel.DefaultMaxResponses
	want.Model.Precision, want.Model.PrecisionLimit, want.Model.Device = encoder.Auto, encoder.DefaultPrecisionLimit, "auto"
	want.Scorer.MaxInstances, want.Scorer.MaxBatchTokens = rewardmodel.DefaultScoredInstances, rewardmodel.DefaultMaxBatchTokens
	want.Scorer.MaxQueueTokens, want.Scorer.MaxQueueTime = rewardmodel.DefaultMaxQueueTokens, want.API.RequestTimeout
	want.Scorer.PolicyTokenizers = map[string]rewardmodel.PolicyTokenizer{}
	want.Queue = queue.Config{
		Server: embedded.Config{Listen: embedded.DefaultListen, MaxPayload: embedded.DefaultMaxPayload, MaxStore: embedded.DefaultMaxStore},
		Worker: queue.WorkerConfig{
			MaxInFlight: queue.DefaultMaxInFlight, MaxAckPending: queue.DefaultMaxAckPending,
			AckWait: queue.DefaultAckWait, MaxDeliver: queue.DefaultMaxDeliver,
		},
		Service: queue.ServiceConfig{
			Version: got.Queue.Service.Version, Timeout: want.API.RequestTimeout, MaxRequests: queue.DefaultMaxRequests,
			Limits: want.API.Limits,
		},
	}
	require.Equal(t, want, got)

	guard := proxy.DefaultConfig()
	guard.Upstream = &url.URL{Scheme: "http", Host: "127.0.0.1:8000"}
	require.Equal(t, guard, parsed("proxy", "--upstream", "http://127.0.0.1:8000").Proxy.Config())

	require.Equal(t, train.DefaultFalseAlarms, parsed("train", "--bags", "a", "--init", "b", "--out", "c").Train.FalseAlarms)
	bfgpu, flags := train.DefaultBFGPU(), parsed("train", "--bags", "a", "--init", "b", "--out", "c").Train.MethodFlags
	require.Equal(t, bfgpu, train.BFGPU{
		Weights: train.Weights(flags.Weights), Loss: train.LossKind(flags.Loss), Normaliser: train.Normaliser(flags.Normaliser),
		PULoss: flags.PULoss, PseudoLabels: flags.PseudoLabels != "false", RecordDuring: flags.PseudoFrom == "during",
		LambdaPU: flags.LambdaPU, LambdaPseudo: flags.LambdaPseudo, LambdaBag: flags.LambdaBag,
	})
}

// The limits of streams default in the library, which the help says.
func TestHelpNamesTheDefaultsOfStreams(t *testing.T) {
	stdout, _, code := assay(t, "", "serve", "--help")
	require.Equal(t, cli.ExitDone, code)
	text := strings.Join(strings.Fields(stdout), " ")
	for flag, value := range map[string]any{
		"duplicate-window": queue.DefaultDuplicateWindow, "responses-bytes": cli.ByteSize(queue.DefaultResponsesMaxBytes),
		"rewards-bytes": cli.ByteSize(queue.DefaultRewardsMaxBytes), "rewards-age": queue.DefaultRewardsMaxAge,
		"dead-bytes": cli.ByteSize(queue.DefaultDeadMaxBytes), "dead-age": queue.DefaultDeadMaxAge,
		"feedback-bytes": cli.ByteSize(queue.DefaultFeedbackMaxBytes), "scored-bytes": cli.ByteSize(queue.DefaultScoredMaxBytes),
		"models-bytes": cli.ByteSize(queue.DefaultModelsMaxBytes), "events-bytes": cli.ByteSize(queue.DefaultEventsMaxBytes),
		"events-age": queue.DefaultEventsMaxAge,
	} {
		_, help, ok := strings.Cut(text, "--stream-"+flag+"=")
		require.True(t, ok, flag)
		help, _, _ = strings.Cut(help, "($ASSAY_")
		require.Contains(t, help, "("+cli.Defaults(map[string]any{"v": value})["v"]+")", flag)
	}
}
