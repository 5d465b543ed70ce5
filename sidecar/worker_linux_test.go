package main

import (
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"golang.org/x/sys/unix"

	"assay/rewardmodel/retrain"
)

// A training run on a full disk fails with that as its reason.
func TestChildOnAFullDisk(t *testing.T) {
	disk := smallDisk(t, 1)
	fill(t, filepath.Join(disk, "filler"))
	t.Setenv(childVariable, "1")
	c, err := newChild("", zerolog.Nop())
	require.NoError(t, err)
	w := &worker{child: c}
	err = w.run(t.Context(), trainArgs(tinyModel(t, nil), bagFile(t, 20), filepath.Join(disk, "mine"), 1), nil)
	require.ErrorIs(t, err, unix.ENOSPC)
	require.NotErrorIs(t, err, retrain.ErrInterrupted)
}
