package program_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/gate"
	"assay/rewardmodel/retrain"
	"assay/sidecar/fleet"
	"assay/sidecar/program"
)

// Every default has one definition, in the library.
func TestDefaultsAreThoseOfTheLibraries(t *testing.T) {
	parsed := func(args ...string) *program.Commands {
		c, err := parse(t, args...)
		require.NoError(t, err)
		return c
	}
	require.Equal(t, gate.DefaultConfig(), parsed("gate", "--current", "a", "--candidate", "b", "--holdout", "c").Gate.Config())

	want := fleet.DefaultConfig()
	require.Equal(t, retrain.DefaultPolicy(), want.Policy)
	require.Equal(t, gate.DefaultConfig(), want.Gate)
	require.Equal(t, want, parsed("serve").Serve.RetrainFlags.Config())
	require.Equal(t, want, parsed("trainer", "--nats-url", "nats://127.0.0.1:4222").Trainer.RetrainFlags.Config())
}
