package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/gate"
	"assay/rewardmodel/retrain"
)

// parsed is the command line without flags that a test does not give.
func parsed(t *testing.T, args ...string) *commandLine {
	t.Helper()
	var c commandLine
	parser, err := assayProgram().Parser(&c, io.Discard, io.Discard)
	require.NoError(t, err)
	_, err = parser.Parse(args)
	require.NoError(t, err)
	return &c
}

// Every default has one definition, in the library.
func TestDefaultsAreThoseOfTheLibraries(t *testing.T) {
	require.Equal(t, gate.DefaultConfig(), parsed(t, "gate", "--current", "a", "--candidate", "b", "--holdout", "c").Gate.config())

	want := fleetDefaultConfig()
	require.Equal(t, retrain.DefaultPolicy(), want.Policy)
	require.Equal(t, gate.DefaultConfig(), want.Gate)
	require.Equal(t, want, parsed(t, "serve").Serve.retrainFlags.config())
	require.Equal(t, want, parsed(t, "trainer", "--nats-url", "nats://127.0.0.1:4222").Trainer.retrainFlags.config())
}
