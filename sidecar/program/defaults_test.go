package program_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/gate"
	"assay/rewardmodel/retrain"
	"assay/sidecar/fleet"
	"assay/sidecar/program"
)

// parsed is the command line without flags that a test does not give.
func parsed(t *testing.T, args ...string) *program.Commands {
	t.Helper()
	var c program.Commands
	parser, err := program.Assay().Parser(&c, io.Discard, io.Discard)
	require.NoError(t, err)
	_, err = parser.Parse(args)
	require.NoError(t, err)
	return &c
}

// Every default has one definition, in the library.
func TestDefaultsAreThoseOfTheLibraries(t *testing.T) {
	require.Equal(t, gate.DefaultConfig(), parsed(t, "gate", "--current", "a", "--candidate", "b", "--holdout", "c").Gate.Config())

	want := fleet.DefaultConfig()
	require.Equal(t, retrain.DefaultPolicy(), want.Policy)
	require.Equal(t, gate.DefaultConfig(), want.Gate)
	require.Equal(t, want, parsed(t, "serve").Serve.RetrainFlags.Config())
	require.Equal(t, want, parsed(t, "trainer", "--nats-url", "nats://127.0.0.1:4222").Trainer.RetrainFlags.Config())
}
