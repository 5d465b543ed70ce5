package fleet

import (
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"golang.org/x/sys/unix"

	"assay/rewardmodel/retrain"
	"assay/sidecar/childproc"
	"assay/sidecar/processtest"
)

// A training run on a full disk fails with that as its reason.
func TestChildOnAFullDisk(t *testing.T) {
	disk := processtest.SmallDisk(t, 1)
	processtest.Fill(t, filepath.Join(disk, "filler"))
	t.Setenv(processtest.ChildVariable, "1")
	c, err := childproc.New("", zerolog.Nop())
	require.NoError(t, err)
	w := &worker{child: c}
	err = w.run(t.Context(), processtest.TrainArgs(processtest.TinyModel(t, nil), processtest.BagFile(t, 20), filepath.Join(disk, "mine"), 1), nil)
	require.ErrorIs(t, err, unix.ENOSPC)
	require.NotErrorIs(t, err, retrain.ErrInterrupted)
}
